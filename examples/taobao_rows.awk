# The 267 columns of a row: of the 50 places for behaviours those that are not padding, as three lists; the columns after them as they are.
BEGIN {
    FS = OFS = ","
    print "kinds,categories,brands,user,segment,group,gender,age,spending,depth,student,city,ad,category,campaign,advertiser,brand,price,place,click"
}
{
    kinds = categories = brands = ""
    for (i = 1; i <= 50; i++)
        if ($i || $(50 + i)) {
            gap = kinds == "" ? "" : " "
            kinds = kinds gap $i; categories = categories gap $(50 + i); brands = brands gap $(100 + i)
        }
    printf "%s,%s,%s", kinds, categories, brands
    for (i = 251; i <= 267; i++) printf ",%s", $i
    print ""
}
