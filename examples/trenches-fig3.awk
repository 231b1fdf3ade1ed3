# Figure 3 of the Trenches paper from lines of: true p, score, uncertainty, number of unseen keys, score learned from labels that were drawn
# once more, scores of bootstrap models. Prints correlations and quartiles of the error of the log-odds by uncertainty, and writes the
# picture to the file `svg`. gawk.
function logit(p) { return log(p / (1 - p)) }
function abs(x) { return x < 0 ? -x : x }
function spread(from,    i, n, x, sum, squares) {
    for (i = from; i <= NF; i++) { x = logit($i); n++; sum += x; squares += x * x }
    return sqrt(squares / n - (sum / n) ^ 2)
}
# Pearson's, over the rows that have no more than `most` unseen keys.
function correlation(a, b, most,    i, m, x, y, xx, yy, xy) {
    for (i = 1; i <= n; i++) if (unseen[i] <= most) {
        m++; x += a[i]; y += b[i]; xx += a[i] * a[i]; yy += b[i] * b[i]; xy += a[i] * b[i]
    }
    return m ? (m * xy - x * y) / sqrt((m * xx - x * x) * (m * yy - y * y)) : 0
}
# Ranks of values, ties in the order of rows: the correlation of ranks is Spearman's.
function ranks(a, rank,    i, m, order) {
    m = asorti(a, order, "@val_num_asc")
    for (i = 1; i <= m; i++) rank[order[i]] = i
}
function row(name, a, b, ra, rb) {
    printf "%-47s %9.4f %9.4f %14.4f\n", name, correlation(a, b, 1e9), correlation(ra, rb, 1e9), correlation(a, b, 0)
}
# Rows by `key` in BINS bins of equal size: mean of key, quartiles of the error.
function quartiles(key, name,    order, b, i, from, to, e, sum, k, rises) {
    asorti(key, order, "@val_num_asc")
    printf "\n%-12s %9s %9s %9s   %s\n", name, "25%", "50%", "75%", "|error of the log-odds|"
    for (b = 0; b < BINS; b++) {
        delete e
        from = int(b * n / BINS) + 1; to = int((b + 1) * n / BINS); sum = 0
        for (i = from; i <= to; i++) { e[i - from + 1] = err[order[i]]; sum += key[order[i]] }
        k = asort(e)
        at[name, b] = sum / k
        for (q = 1; q <= 3; q++) quartile[name, b, q] = e[int(k * q / 4) + 1]
        printf "%-12.4f %9.4f %9.4f %9.4f\n", at[name, b], quartile[name, b, 1], quartile[name, b, 2], quartile[name, b, 3]
        rises += b && quartile[name, b, 2] > quartile[name, b - 1, 2]
    }
    printf "the median rises in %d of %d steps\n", rises, BINS - 1
}
function panel(name, left, title,    b, q, top, low, high, x, path) {
    low = at[name, 0]; high = at[name, BINS - 1]
    for (b = 0; b < BINS; b++) if (quartile[name, b, 3] > top) top = quartile[name, b, 3]
    printf "<g transform=\"translate(%d,40)\">\n<rect width=\"320\" height=\"240\" fill=\"none\" stroke=\"#888\"/>\n", left > svg
    printf "<text x=\"160\" y=\"-14\" text-anchor=\"middle\">%s</text>\n", title > svg
    printf "<text x=\"0\" y=\"258\">%.3g</text><text x=\"320\" y=\"258\" text-anchor=\"end\">%.3g</text>\n", low, high > svg
    printf "<text x=\"160\" y=\"258\" text-anchor=\"middle\">%s</text>\n", name > svg
    printf "<text x=\"-6\" y=\"8\" text-anchor=\"end\">%.2g</text><text x=\"-6\" y=\"240\" text-anchor=\"end\">0</text>\n", top > svg
    for (q = 1; q <= 3; q++) {
        path = ""
        for (b = 0; b < BINS; b++)
            path = path sprintf("%.1f,%.1f ", 320 * (at[name, b] - low) / (high - low), 240 * (1 - quartile[name, b, q] / top))
        printf "<polyline points=\"%s\" fill=\"none\" stroke=\"%s\" stroke-width=\"2\"/>\n", path, colour[q] > svg
        printf "<text x=\"324\" y=\"%.1f\" fill=\"%s\">%d%%</text>\n", 244 * (1 - quartile[name, BINS - 1, q] / top) + 4, colour[q], 25 * q > svg
    }
    print "</g>" > svg
}
BEGIN { colour[1] = "#0072b2"; colour[2] = "#d55e00"; colour[3] = "#009e73" }
{
    n++; err[n] = abs(logit($2) - logit($1)); u[n] = $3; unseen[n] = $4; again[n] = abs(logit($2) - logit($5)); s[n] = spread(6)
    known += !$4; total += err[n]; again_total += again[n]; s_total += s[n]; s_squares += s[n] ^ 2
}
END {
    ranks(err, rerr); ranks(u, ru); ranks(s, rs); ranks(again, ragain)
    printf "%d rows, %d with no unseen key, %d bootstrap models\n", n, known, NF - 5
    s_mean = s_total / n
    printf "mean |error| %.4f, mean |difference| of the model from labels drawn again %.4f\n", total / n, again_total / n
    printf "spread %.4f +- %.4f, of which the draw of %d models makes %.4f\n\n", s_mean, sqrt(s_squares / n - s_mean ^ 2), NF - 5, \
        s_mean / sqrt(2 * (NF - 6))
    printf "%-47s %9s %9s %14s\n", "correlation", "values", "ranks", "no unseen key"
    row("uncertainty with the error", u, err, ru, rerr)
    row("uncertainty with labels drawn again", u, again, ru, ragain)
    row("spread of the bootstrap with the error", s, err, rs, rerr)
    row("spread of the bootstrap with labels drawn again", s, again, rs, ragain)
    row("uncertainty with the spread", u, s, ru, rs)
    quartiles(u, "uncertainty"); quartiles(s, "spread")
    print "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"820\" height=\"320\" font-family=\"sans-serif\" font-size=\"12\">" > svg
    print "<rect width=\"820\" height=\"320\" fill=\"white\"/>" > svg
    panel("uncertainty", 50, "|error of the log-odds| by uncertainty")
    panel("spread", 450, "the same by the spread of the bootstrap models")
    print "</svg>" > svg
}
