# "user item item …": each user's last item is a row to test with, the one before it a row to learn from; the items before are its past. Beside
# each row stands one with an item that the user never has, drawn among all places of all sequences (by popularity).
{ line[NR] = $0; for (i = 2; i <= NF; i++) all[n++] = $i }
END {
    srand(1)
    print "part,user,past,item,click"
    for (l = 1; l <= NR; l++) {
        k = split(line[l], f, " "); split("", has); past = ""
        for (i = 2; i <= k; i++) has[f[i]] = 1
        for (i = 2; i <= k; i++) {
            if (i >= k - 1) {
                do other = all[int(rand() * n)]; while (other in has)
                part = i == k ? "test" : "train"
                printf "%s,%s,%s,%s,1\n%s,%s,%s,%s,0\n", part, f[1], past, f[i], part, f[1], past, other
            }
            past = past (past == "" ? "" : " ") f[i]
        }
    }
}
