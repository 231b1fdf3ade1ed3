# The published recipes of the BARS benchmark, for those who have its data: BARS=folder with Criteo_x4/train.csv and so on (bars.md).
# What this file makes of a data set lies in OUT/bars/NAME: fitted.arrows, train.arrows, valid.arrows, test.arrows and the models.

BARS ?= $(DATA)/bars
bars := criteo_x4 avazu_x4 taobaoad_x1 amazonelectronics_x1 movielenslatest_x1 kuaivideo_x1 frappe_x1
.PHONY: bars frappe $(bars:%=bars-%)
.SECONDARY: $(bars:%=$(OUT)/bars/%/train.arrows)

# bars-criteo_x4: BARS benchmark, display ads: lr, fm, mlp, dcnv2 (BARS/Criteo_x4)
bars-criteo_x4_folder := Criteo_x4
bars-criteo_x4_import := --columns 'Label:int8,I[1..13]:float64,C[1..26]:utf8'
# bars-avazu_x4: BARS benchmark, mobile ads: lr, fm, mlp, dcnv2 (BARS/Avazu_x4)
bars-avazu_x4_folder := Avazu_x4
bars-avazu_x4_import := --time 'hour:%y%m%d%H' --columns 'id:utf8,click:int8,hour:timestamp,C1:utf8,banner_pos:utf8,site_id:utf8,site_domain:utf8,site_category:utf8,app_id:utf8,app_domain:utf8,app_category:utf8,device_id:utf8,device_ip:utf8,device_model:utf8,device_type:utf8,device_conn_type:utf8,C[14..21]:utf8'
# bars-taobaoad_x1: BARS benchmark, display ads with behaviours: din (BARS/TaobaoAd_x1)
bars-taobaoad_x1_folder := TaobaoAd_x1
bars-taobaoad_x1_import := --columns 'clk:int8,btag_his:utf8,cate_his:utf8,brand_his:utf8,userid:utf8,cms_segid:utf8,cms_group_id:utf8,final_gender_code:utf8,age_level:utf8,pvalue_level:utf8,shopping_level:utf8,occupation:utf8,new_user_class_level:utf8,adgroup_id:utf8,cate_id:utf8,campaign_id:utf8,customer:utf8,brand:utf8,price:float64,pid:utf8,btag:utf8'
# bars-amazonelectronics_x1: BARS benchmark, articles reviewed before: din (BARS/AmazonElectronics_x1)
bars-amazonelectronics_x1_folder := AmazonElectronics_x1
bars-amazonelectronics_x1_import := --columns 'label:int8,user_id:utf8,item_id:utf8,cate_id:utf8,item_history:utf8,cate_history:utf8'
# bars-movielenslatest_x1: BARS benchmark, tags of movies: mlp, dcnv2 (BARS/MovielensLatest_x1)
bars-movielenslatest_x1_folder := MovielensLatest_x1
bars-movielenslatest_x1_import := --columns 'label:int8,user_id:utf8,item_id:utf8,tag_id:utf8'
# bars-kuaivideo_x1: BARS benchmark, videos clicked and not clicked before: din (BARS/KuaiVideo_x1)
bars-kuaivideo_x1_folder := KuaiVideo_x1
bars-kuaivideo_x1_import := --columns 'timestamp:utf8,user_id:utf8,item_id:utf8,is_click:int8,is_like:int8,is_follow:int8,pos_items:utf8,neg_items:utf8'
# bars-frappe_x1: BARS benchmark, apps in context: fm, mlp, dcnv2 (BARS/Frappe_x1)
bars-frappe_x1_folder := Frappe_x1
bars-frappe_x1_import := --columns 'label:int8,user:utf8,item:utf8,daytime:utf8,weekday:utf8,isweekend:utf8,homework:utf8,cost:utf8,weather:utf8,country:utf8,city:utf8'

# bars: all of them
bars: $(bars:%=bars-%)
$(bars:%=bars-%): bars-%: bars.sh bars/recipes.txt $(OUT)/bars/%/train.arrows
	OUT=$(abspath $(OUT)) ./bars.sh $*
# The training rows are shuffled once. A set without validation rows is validated on its test, as the benchmark does.
bars-rows = ctr-import -q --format csv --header $(bars-$*_import) $(BARS)/$(bars-$*_folder)/$(1).csv
$(OUT)/bars/%/train.arrows: bars/%.plan
	@mkdir -p $(@D)
	$(call bars-rows,train) | ctr-extract --fit $< -o $(@D)/fitted.arrows
	$(call bars-rows,test) | ctr-extract $(@D)/fitted.arrows -o $(@D)/test.arrows
	if [ -f $(BARS)/$(bars-$*_folder)/valid.csv ]; then $(call bars-rows,valid) | ctr-extract $(@D)/fitted.arrows -o $(@D)/valid.arrows; \
	  else cp $(@D)/test.arrows $(@D)/valid.arrows; fi
	$(call bars-rows,train) | ctr-extract $(@D)/fitted.arrows | ctr-sort --shuffle --seed 1 -o $@

# frappe: the recipes of Frappe_x1 on what there is of it: learned from its validation file, tested on its test (DATA/formats/libfm)
frappe: $(OUT)/frappe/data/Frappe_x1/test.csv
	$(MAKE) --no-print-directory bars-frappe_x1 BARS=$(OUT)/frappe/data OUT=$(OUT)/frappe
frappe-csv = sed 's/^-1/0/; s/:1//g; s/  */,/g; s/,$$//'
$(OUT)/frappe/data/Frappe_x1/test.csv: $(DATA)/formats/libfm/frappe.validation.libfm.gz $(DATA)/formats/libfm/frappe.test.libfm.gz
	@mkdir -p $(@D)
	for part in train valid test; do echo label,user,item,daytime,weekday,isweekend,homework,cost,weather,country,city >$(@D)/$$part.csv; done
	gzip -dc $< | $(frappe-csv) | awk '{ print >>("$(@D)/" (NR % 5 ? "train" : "valid") ".csv") }'
	gzip -dc $(word 2,$^) | $(frappe-csv) >>$@
