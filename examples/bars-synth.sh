#!/bin/sh
# Made-up files of exactly the formats that bars.mk reads, to try its recipes without the data: bars-synth.sh FOLDER [ROWS]
set -eu
folder=$1
rows=${2:-400}

# make SET PARTS HEADER BODY: BODY is the awk that prints a row; whether it is a click depends on two of its values.
make() {
    mkdir -p "$folder/$1"
    for part in $2; do
        case $part in train) n=$rows seed=1 ;; valid) n=$((rows / 4)) seed=2 ;; *) n=$((rows / 4)) seed=3 ;; esac
        awk -v n="$n" -v seed="$seed" -v header="$3" '
            function below(k) { return int(rand() * k) }
            function hex(k,   v) { v = below(k); return sprintf("%08x", (v * 2654435 + 12345) % 4294967291) }
            function list(k, most, text, len) { text = ""; for (len = below(most + 1); len > 0; len--) text = text (text == "" ? "" : "^") (1 + below(k)); return text }
            BEGIN { srand(seed); print header; for (row = 0; row < n; row++) { '"$4"' } }' >"$folder/$1/$part.csv"
    done
}

header=Label
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13; do header=$header,I$i; done
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26; do header=$header,C$i; done
make Criteo_x4 'train valid test' "$header" '
    text = ""; for (i = 1; i <= 13; i++) text = text "," (rand() < .2 ? "" : i == 2 ? below(50) - 3 : below(200))
    a = below(6); for (i = 1; i <= 26; i++) text = text "," (rand() < .1 ? "" : i == 1 ? hex(6) : hex(i * 3))
    print (rand() < .25) text'
header=id,click,hour,C1,banner_pos,site_id,site_domain,site_category,app_id,app_domain,app_category,device_id,device_ip,device_model
header=$header,device_type,device_conn_type,C14,C15,C16,C17,C18,C19,C20,C21
make Avazu_x4 'train valid test' "$header" '
    a = below(7); text = sprintf("%.0f", 1000009418151094273 + row) "," (rand() < (a < 3 ? .4 : .1)) ",1410" (21 + below(10)) sprintf("%02d", below(24))
    text = text ",100" 5 + below(3) "," a; for (i = 0; i < 9; i++) text = text "," hex(20)
    text = text "," below(4) "," below(4); for (i = 0; i < 8; i++) text = text "," (i == 6 && rand() < .5 ? -1 : 15700 + below(30))
    print text'
header=clk,btag_his,cate_his,brand_his,userid,cms_segid,cms_group_id,final_gender_code,age_level,pvalue_level,shopping_level,occupation
header=$header,new_user_class_level,adgroup_id,cate_id,campaign_id,customer,brand,price,pid,btag
make TaobaoAd_x1 'train test' "$header" '
    c = 1 + below(8); past = list(8, 50); k = past == "" ? 0 : split(past, part, "^"); same = 0; brands = kinds = ""
    for (i = 1; i <= k; i++) { same += part[i] == c; brands = brands (i > 1 ? "^" : "") 1 + below(30); kinds = kinds (i > 1 ? "^" : "") 1 + below(4) }
    text = (rand() < (same > 2 ? .5 : .05)) "," kinds "," past "," brands "," 1 + below(40)
    for (i = 0; i < 8; i++) text = text "," below(5)
    print text "," 1 + below(60) "," c "," 1 + below(50) "," 1 + below(40) "," 1 + below(30) "," below(9000) / 10 ",430548_100" below(2) ",1"'
make AmazonElectronics_x1 'train test' label,user_id,item_id,cate_id,item_history,cate_history '
    c = below(6); past = list(60, 20); if (past == "") past = "1"; k = split(past, part, "^"); same = 0; kinds = ""
    for (i = 1; i <= k; i++) { same += part[i] % 6 == c; kinds = kinds (i > 1 ? "^" : "") part[i] % 6 }
    print (rand() < (same * 4 > k ? .8 : .2)) "," below(50) "," c + 6 * below(10) "," c "," past "," kinds'
make MovielensLatest_x1 'train valid test' label,user_id,item_id,tag_id '
    a = below(20); b = below(20); print (rand() < ((a + b) % 2 ? .6 : .1)) "," a "," 20 + b "," 40 + below(30)'
make KuaiVideo_x1 'train test' timestamp,user_id,item_id,is_click,is_like,is_follow,pos_items,neg_items '
    v = 1 + below(40); past = list(40, 30); print row / 1000 "," below(30) "," v "," (index("^" past "^", "^" v "^") ? rand() < .7 : rand() < .2) ",0,0," past "," list(40, 30)'
make Frappe_x1 'train valid test' label,user,item,daytime,weekday,isweekend,homework,cost,weather,country,city '
    a = below(20); b = 20 + below(30)
    print (rand() < ((a + b) % 2 ? .7 : .1)) "," a "," b "," 50 + below(7) "," 60 + below(7) "," 70 + below(2) "," 75 + below(3) "," 80 + below(2) "," 85 + below(9) "," 100 + below(20) "," 130 + below(30)'
