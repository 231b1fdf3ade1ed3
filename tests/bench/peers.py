# SPDX-License-Identifier: Apache-2.0
"""One peer, one task: peers.py TASK ARGS. Runs in the virtual environment of the benchmark. The last line of output is JSON: seconds
and processor seconds of the work alone (neither the start of Python nor imports; where a peer works on arrays, they are in
memory already), and what it found, to compare with ours."""
import importlib
import json
import os
import sys
import tempfile
import time


def children_cpu():
    """Processor seconds so far of the processes that this one has started and that still run, and of theirs: Spark computes in a JVM."""
    parent, seconds = {}, {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat") as f:
                field = f.read().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        parent[int(pid)] = int(field[1])
        seconds[int(pid)] = (int(field[11]) + int(field[12])) / os.sysconf("SC_CLK_TCK")

    def ours(pid):
        while pid in parent and pid != os.getpid():
            pid = parent[pid]
        return pid == os.getpid()
    return sum(s for pid, s in seconds.items() if pid != os.getpid() and ours(pid))


class clock:
    def __enter__(self):
        self.wall, self.cpu = time.perf_counter(), time.process_time() + children_cpu()
        return self

    def __exit__(self, *_):
        self.wall, self.cpu = time.perf_counter() - self.wall, time.process_time() + children_cpu() - self.cpu


def report(c, **found):
    print(json.dumps({"wall": c.wall, "cpu": c.cpu, **found}))


def versions(*names):
    out = {}
    for n in names:
        try:
            out[n] = importlib.import_module(n).__version__
        except Exception as e:  # absent or broken: the rows are left out with this note
            out[n] = None
            print(f"{n}: {e}", file=sys.stderr)
    print(json.dumps(out))


def mlp_session(inputs=190, hidden=(200, 80)):
    """An mlp of ONNX Runtime, one thread: as ctr-train mlp --hidden 200,80 has it on 19 features of 10 numbers."""
    import numpy as np
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper
    r, nodes, weights, x, wide = np.random.default_rng(1), [], [], "x", inputs
    for i, out in enumerate((*hidden, 1)):
        for name, shape in ((f"w{i}", (wide, out)), (f"b{i}", (out,)), (f"a{i}", (out,)))[:2 + (out > 1)]:
            weights.append(numpy_helper.from_array(r.normal(0, .1, shape).astype(np.float32), name))
        nodes.append(helper.make_node("Gemm", [x, f"w{i}", f"b{i}"], [f"z{i}"]))
        nodes.append(helper.make_node("PRelu", [f"z{i}", f"a{i}"], [f"h{i}"]) if out > 1 else helper.make_node("Sigmoid", [f"z{i}"], [f"h{i}"]))
        x, wide = f"h{i}", out
    graph = helper.make_graph(nodes, "mlp", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, inputs])],
                              [helper.make_tensor_value_info(x, TensorProto.FLOAT, [None, 1])], weights)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def onnx_dense(rows, times=500):
    """Seconds a run of so many rows."""
    import numpy as np
    session, x = mlp_session(), np.random.default_rng(2).normal(0, 1, (int(rows), 190)).astype(np.float32)
    for _ in range(50):
        session.run(None, {"x": x})
    with clock() as c:
        for _ in range(times):
            session.run(None, {"x": x})
    print(json.dumps({"wall": c.wall / times, "cpu": c.cpu / times}))


def serve_onnx(sock):
    """A server of the usual kind: JSON by the standard library, keys by hash, the user's once, embeddings in numpy."""
    import numpy as np
    import uvicorn
    session, rows = mlp_session(), 1 << 20
    table = np.random.default_rng(3).normal(0, .1, (rows, 10)).astype(np.float32)
    fields = range(8)

    def scores(body):
        request = json.loads(body)
        user = request["user"]
        of_user = [hash((f, user[f"u{f}"])) % rows for f in fields]
        keys = [of_user + [hash((8 + f, ad[f"a{f}"])) % rows for f in fields] + [hash((16 + f, user[f"u{f}"], ad[f"a{f}"])) % rows for f in range(3)]
                for ad in request["ads"]]
        x = table[np.array(keys)].reshape(len(keys), -1)
        return json.dumps({"scores": session.run(None, {"x": x})[0][:, 0].tolist()}).encode()

    async def app(scope, receive, send):
        if scope["type"] != "http":
            return
        body, more = b"", True
        while more:
            part = await receive()
            body, more = body + part.get("body", b""), part.get("more_body", False)
        answer = scores(body)
        await send({"type": "http.response.start", "status": 200,
                    "headers": [(b"content-type", b"application/json"), (b"content-length", str(len(answer)).encode())]})
        await send({"type": "http.response.body", "body": answer})

    uvicorn.run(app, uds=sock, log_level="warning", access_log=False, lifespan="off")


def vw(text, cache, options):
    """One pass of FTRL with progressive validation, as `vw` does it: the same driver in C++, called from Python."""
    from vowpalwabbit import Workspace
    source = f"-d {text}" + (f" --cache_file {cache}" if cache != "-" else "")
    out = tempfile.NamedTemporaryFile()  # not /dev/null: vw renames its model over it
    with clock() as c:
        w = Workspace(f"{source} {options} --loss_function logistic --holdout_off --quiet -f {out.name}")
        loss = w.get_sum_loss() / w.get_weighted_examples()
        w.finish()
    report(c, log_loss=loss)


def arrays(path, *columns):
    import pyarrow as pa
    t = pa.ipc.open_stream(pa.memory_map(path)).read_all()
    return [t.column(n).to_numpy() for n in columns]


def auc(path):
    from sklearn.metrics import log_loss, roc_auc_score
    y, s = arrays(path, "click", "score")
    with clock() as c:
        a, l = roc_auc_score(y, s), log_loss(y, s)
    report(c, auc=a, log_loss=l)


def gauc(path):
    """AUC of each user by ranks, weighted by impressions, users of one class left out."""
    import pandas as pd
    y, u, s = arrays(path, "click", "user", "score")
    d = pd.DataFrame({"y": y.astype("int64"), "u": u, "s": s})
    with clock() as c:
        d["r"] = d.groupby("u").s.rank()
        d["rp"] = d.r * d.y
        g = d.groupby("u").agg(n=("y", "size"), p=("y", "sum"), rp=("rp", "sum"))
        g = g[(g.p > 0) & (g.p < g.n)]
        a = (g.rp - g.p * (g.p + 1) / 2) / (g.p * (g.n - g.p))
        found = float((a * g.n).sum() / g.n.sum())
    report(c, gauc=found)


def numpy_auc(path):
    """AUC by one argsort and the log loss, without anything that a check of scikit-learn adds. Equal scores count half."""
    import numpy as np
    y, s = arrays(path, "click", "score")
    with clock() as c:
        order = np.argsort(s)
        s, y = s[order], y[order].astype("float64")
        ends = np.append(np.flatnonzero(s[1:] != s[:-1]), len(s) - 1)  # the last row of each score
        up_to, clicks = ends + 1.0, np.cumsum(y)[ends]
        n, p = np.diff(up_to, prepend=0), np.diff(clicks, prepend=0)
        a = float((p * (up_to - clicks - (n - p) / 2)).sum() / (clicks[-1] * (len(y) - clicks[-1])))
        l = float(-np.log(np.where(y > 0, s, 1 - s)).mean())
    report(c, auc=a, log_loss=l)


def polars_gauc(path):
    """AUC of each user by Polars' ranks, and of all rows beside it."""
    import polars as pl
    d = pl.read_ipc_stream(path, columns=["click", "user", "score"])
    with clock() as c:
        g = d.lazy().with_columns(r=pl.col("score").rank("average").over("user"), y=pl.col("click").cast(pl.Float64)).group_by("user").agg(
            n=pl.len().cast(pl.Float64), p=pl.col("y").sum(), rp=(pl.col("r") * pl.col("y")).sum()).filter((pl.col("p") > 0) & (pl.col("p") < pl.col("n")))
        g = g.with_columns(a=(pl.col("rp") - pl.col("p") * (pl.col("p") + 1) / 2) / (pl.col("p") * (pl.col("n") - pl.col("p"))))
        found = g.select((pl.col("a") * pl.col("n")).sum() / pl.col("n").sum()).collect().item()
    report(c, gauc=found)


def scipy_isotonic(path):
    """numpy's argsort, equal scores joined, and scipy's pool of adjacent violators."""
    import numpy as np
    from scipy.optimize import isotonic_regression
    y, s = arrays(path, "click", "score")
    with clock() as c:
        order = np.argsort(s)
        s, y = s[order], y[order].astype("float64")
        first = np.flatnonzero(np.append(True, s[1:] != s[:-1]))
        w = np.diff(np.append(first, len(s))).astype("float64")
        fit = isotonic_regression(np.add.reduceat(y, first) / w, weights=w)
    report(c, knots=len(fit.blocks) - 1)


def isotonic(path):
    from sklearn.isotonic import IsotonicRegression
    y, s = arrays(path, "click", "score")
    y = y.astype("float64")
    with clock() as c:
        m = IsotonicRegression().fit(s, y)
    report(c, knots=len(m.X_thresholds_))


def duckdb_join_csv(left, right):
    import duckdb
    with clock() as c:
        t = duckdb.sql(f"select * from read_csv('{left}') l left join read_csv('{right}') r using (key)").to_arrow_table()
    report(c, rows=t.num_rows, unmatched=t.column("name").null_count)


def polars_join_csv(left, right):
    import polars as pl
    with clock() as c:
        t = pl.scan_csv(left).join(pl.scan_csv(right), on="key", how="left").collect()
    report(c, rows=t.height, unmatched=t["name"].null_count())


def duckdb_join_arrow(left, right):
    import duckdb
    import pyarrow as pa
    with clock() as c:
        l = pa.ipc.open_stream(pa.memory_map(left)).read_all()
        r = pa.ipc.open_stream(pa.memory_map(right)).read_all()
        t = duckdb.sql("select * from l left join r using (key)").to_arrow_table()
    report(c, rows=t.num_rows, unmatched=t.column("name").null_count)


def polars_join_arrow(left, right):
    import polars as pl
    with clock() as c:
        t = pl.read_ipc_stream(left).join(pl.read_ipc_stream(right), on="key", how="left")
    report(c, rows=t.height, unmatched=t["name"].null_count())


def polars_join_scan(left, right):
    """The same of IPC files by the streaming engine."""
    import polars as pl
    with clock() as c:
        t = pl.scan_ipc(left).join(pl.scan_ipc(right), on="key", how="left").collect(engine="streaming")
    report(c, rows=t.height, unmatched=t["name"].null_count())


def duckdb_sort(path, to, memory, temporary):
    """A text file sorted by its first column within a bound of memory, as text."""
    import duckdb
    duckdb.sql(f"set memory_limit = '{memory}'; set temp_directory = '{temporary}'; set threads = 1; set preserve_insertion_order = false")  # two threads do not fit in 256 MB
    with clock() as c:
        duckdb.sql(f"copy (select * from read_csv('{path}', delim='\t', header=false, quote='', escape='', all_varchar=true) order by column00) "
                   f"to '{to}' (delimiter '\t', header false, quote '')")
    report(c)


def polars_group(path, which):
    """By the streaming engine, of an IPC file."""
    import polars as pl
    price, place = pl.col("price"), pl.col("place")
    of = {"five": [pl.len().alias("n"), price.sum().alias("s"), price.mean().alias("m"), place.min().alias("low"), place.max().alias("high")],
          "ordered": [place.n_unique().alias("d"), price.median().alias("m")]}[which]
    with clock() as c:
        t = pl.scan_ipc(path).group_by("key").agg(*of).collect(engine="streaming")
    report(c, groups=t.height)


def duckdb_group(path, which):
    import duckdb
    import pyarrow as pa
    of = {"five": "count(*) n, sum(price) s, avg(price) m, min(place) low, max(place) high",
          "ordered": "count(distinct place) d, median(price) m"}[which]
    with clock() as c:
        l = pa.ipc.open_stream(pa.memory_map(path)).read_all()
        t = duckdb.sql(f"select key, {of} from l group by key").to_arrow_table()
    report(c, groups=t.num_rows)


# The features of examples/featurebox.plan from the same text of the same views: keys are 64-bit hashes, lists of them where ours are. A list that
# is missing has one key, as in ours. Of these columns bench.py compares the number of keys, and of different ones:
FEATUREBOX_LISTS = ("interest", "word", "pair", "query_word", "asked", "likes")
WORDS = "regexp_extract_all(lower({text}), '[a-z0-9]+')"
FEATUREBOX = f"""
with t as (select i.*, c.click_time is not null as clicked, u.gender, u.age, u.city, a.campaign_id, a.title, a.category,
    a.creative.format as format, a.price, b.basic_os, b.basic_site, {WORDS.format(text="title")} as w, {WORDS.format(text="query")} as q,
    string_split(u.interests, '|') as interests_list
    from read_csv('{{d}}/impressions.tsv', delim='\t', header=true, quote='') i
    left join read_csv('{{d}}/clicks.tsv', delim='\t', header=true) c using (impression_id)
    left join read_csv('{{d}}/users.tsv', delim='\t', header=true) u on i.user_id = u.user_id
    left join read_json('{{d}}/ads.jsonl', format='newline_delimited') a on i.ad_id = a.ad_id
    left join read_csv('{{d}}/basic.tsv', delim='\t', header=true) b on i.impression_id = b.impression_id
    where i.position >= 0 and i.user_id is not null)
select impression_id, time, clicked, hash(user_id) user, hash(ad_id) ad, hash(campaign_id) campaign, hash(city) city, hash(gender) gender,
    hash((age >= 18)::int + (age >= 25)::int + (age >= 35)::int + (age >= 45)::int + (age >= 55)::int + (age >= 65)::int) age,
    hash(category) category, coalesce(list_transform(interests_list, lambda x: hash(x)), [hash(null)]) interest,
    hash(position) position, hash(format) format, coalesce(list_transform(list_distinct(w), lambda x: hash(x)), [hash(null)]) word,
    coalesce(list_transform(range(1, len(w)), lambda k: hash(w[k] || ' ' || w[k + 1])), [hash(null)]) pair,
    coalesce(list_transform(list_distinct(q), lambda x: hash(x)), [hash(null)]) query_word,
    coalesce(list_transform(q, lambda x: hash(x || ' ' || category)), [hash(null)]) asked,
    hash(json_extract_string(context, '$.slot')) slot, hash(json_extract_string(context, '$.test')) test, hash(hour(time)) as "hour",
    hash(split_part(referrer, '.', 1)) as site, coalesce(list_transform(interests_list, lambda x: hash(x || ' ' || category)), [hash(null)]) likes,
    hash(basic_os || ' ' || basic_site) os_site, ln(1 + price)::float price, len(w)::float words from t"""


def duckdb_featurebox(folder):
    import duckdb
    duckdb.sql("set threads = 2")
    with clock() as c:
        t = duckdb.sql(FEATUREBOX.format(d=folder)).to_arrow_table()
    clicked = duckdb.sql("select sum(clicked::int) from t").fetchall()[0][0]
    count = " union all ".join(f"select '{k}', count(*), count(distinct key) from (select unnest({k}) as key from t)" for k in FEATUREBOX_LISTS)
    keys = {k: n for k, *n in duckdb.sql(count).fetchall()}
    report(c, rows=t.num_rows, clicked=int(clicked), keys=keys)


def polars_featurebox(folder):
    import polars as pl
    tsv = dict(separator="\t", quote_char=None, infer_schema_length=10000)

    def words(text):
        return pl.col(text).str.to_lowercase().str.extract_all("[a-z0-9]+")

    def keys_of(hashes):
        """Of a list that is missing one key."""
        return hashes.fill_null(pl.lit([0], dtype=pl.List(pl.UInt64)))

    def hashes(list_):
        return list_.list.eval(pl.element().hash())

    def crossed(list_):
        return keys_of(hashes(pl.col(list_)) + pl.col("category").hash(seed=1))

    with clock() as c:
        i = pl.scan_csv(f"{folder}/impressions.tsv", **tsv).filter((pl.col("position") >= 0) & pl.col("user_id").is_not_null())
        i = i.with_columns(q=words("query"))
        clicks = pl.scan_csv(f"{folder}/clicks.tsv", **tsv).select("impression_id", "click_time")
        users, basic = pl.scan_csv(f"{folder}/users.tsv", **tsv), pl.scan_csv(f"{folder}/basic.tsv", **tsv)
        users = users.with_columns(interests_list=pl.col("interests").str.split("|")).with_columns(interest=keys_of(hashes(pl.col("interests_list"))))
        ads = pl.scan_ndjson(f"{folder}/ads.jsonl").with_columns(format=pl.col("creative").struct.field("format"), w=words("title"))
        pair = pl.concat_list(*[(pl.col("w").list.get(k, null_on_oob=True) + " " + pl.col("w").list.get(k + 1, null_on_oob=True))
                                for k in range(8)]).list.drop_nulls()
        ads = ads.with_columns(word=keys_of(hashes(pl.col("w").list.unique())), pair=keys_of(hashes(pair)))
        t = i.join(clicks, on="impression_id", how="left").join(users, on="user_id", how="left").join(ads, on="ad_id", how="left") \
            .join(basic, on="impression_id", how="left")
        age = sum((pl.col("age") >= a).cast(pl.Int32) for a in (18, 25, 35, 45, 55, 65))
        keys = ["user_id", "ad_id", "campaign_id", "city", "gender", "category", "position", "format"]
        t = t.select("impression_id", "time", pl.col("click_time").is_not_null().alias("clicked"), *[pl.col(k).hash().alias("k_" + k) for k in keys],
                     age.hash().alias("age"), "interest", "word", "pair",
                     keys_of(hashes(pl.col("q").list.unique())).alias("query_word"), crossed("q").alias("asked"),
                     *[pl.col("context").str.json_path_match(f"$.{k}").hash().alias(k) for k in ("slot", "test")],
                     pl.col("time").str.to_datetime("%Y-%m-%dT%H:%M:%S%.fZ").dt.hour().hash().alias("hour"),
                     pl.col("referrer").str.split(".").list.first().hash().alias("site"),
                     crossed("interests_list").alias("likes"),
                     (pl.col("basic_os") + " " + pl.col("basic_site")).hash().alias("os_site"),
                     pl.col("price").log1p().alias("price"), pl.col("w").list.len().alias("words")).collect()
    report(c, rows=t.height, clicked=int(t["clicked"].sum()), keys={k: [int(t[k].list.len().sum()), t[k].explode().n_unique()] for k in FEATUREBOX_LISTS})


def spark_session():
    """Apache Spark in local mode with two cores."""
    from pyspark.sql import SparkSession
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "4") \
        .config("spark.driver.memory", "3g").config("spark.sql.session.timeZone", "UTC").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def spark_views(spark, folder):
    for view in ("impressions", "clicks", "users", "basic"):
        spark.read.csv(f"{folder}/{view}.tsv", sep="\t", header=True, inferSchema=True, quote="").createOrReplaceTempView(view)
    spark.read.json(f"{folder}/ads.jsonl").createOrReplaceTempView("ads")


def spark_found(t):
    n = t.selectExpr("count(*) rows", "sum(int(clicked)) clicked").collect()[0]
    lists = ", ".join(f"struct('{k}' as name, {k} as keys)" for k in FEATUREBOX_LISTS)
    t.selectExpr(f"inline(array({lists}))").selectExpr("name", "explode(keys) as key").createOrReplaceTempView("keys")
    keys = t.sparkSession.sql("select name, count(*) n, count(distinct key) distinct_keys from keys group by name").collect()
    return {"rows": n.rows, "clicked": n.clicked, "keys": {k.name: [k.n, k.distinct_keys] for k in keys}}


def spark_featurebox(folder, passes="2"):
    """The last pass of a session, as the first one compiles. The result is written to no file."""
    spark = spark_session()
    for _ in range(int(passes)):
        with clock() as c:
            spark_views(spark, folder)
            t = spark.sql(SPARK_CLICKS + ", " + SPARK_TABLE.format(i="i") + SPARK_FEATURES)
            t.write.format("noop").mode("overwrite").save()  # every column of every row
    report(c, **spark_found(t))
    spark.stop()


def spark_staged(folder, out):
    """The same as three jobs, as a cluster runs them: each writes Parquet files, which the next one reads. One pass of a session."""
    spark = spark_session()
    with clock() as c:
        spark_views(spark, folder)
        spark.sql(SPARK_CLICKS + " select * from i").write.mode("overwrite").parquet(f"{out}/clicks")
        spark.read.parquet(f"{out}/clicks").createOrReplaceTempView("stage1")
        spark.sql("with " + SPARK_TABLE.format(i="stage1") + " select * from t").write.mode("overwrite").parquet(f"{out}/table")
        spark.read.parquet(f"{out}/table").createOrReplaceTempView("t")
        spark.sql(SPARK_FEATURES).write.mode("overwrite").parquet(f"{out}/features")
    report(c, **spark_found(spark.read.parquet(f"{out}/features")))
    spark.stop()


SPARK_CLICKS = """with i as (select i.*, c.click_time is not null as clicked from impressions i left join clicks c on i.impression_id = c.impression_id
    where i.position >= 0 and i.user_id is not null)"""
SPARK_TABLE = r"""t as (select i.*, u.gender, u.age, u.city, a.campaign_id, a.title, a.category, a.creative.format as format, a.price,
    b.basic_os, b.basic_site, regexp_extract_all(lower(a.title), '([a-z0-9]+)', 1) as w, regexp_extract_all(lower(i.query), '([a-z0-9]+)', 1) as q,
    split(u.interests, '[|]') as interests_list
    from {i} i left join users u on i.user_id = u.user_id
    left join ads a on i.ad_id = a.ad_id left join basic b on i.impression_id = b.impression_id)"""
SPARK_FEATURES = r"""
select impression_id, time, clicked, xxhash64(user_id) user, xxhash64(ad_id) ad, xxhash64(campaign_id) campaign, xxhash64(city) city, xxhash64(gender) gender,
    xxhash64(int(age >= 18) + int(age >= 25) + int(age >= 35) + int(age >= 45) + int(age >= 55) + int(age >= 65)) age,
    xxhash64(category) category, coalesce(transform(interests_list, x -> xxhash64(x)), array(xxhash64(null))) interest,
    xxhash64(position) position, xxhash64(format) format, coalesce(transform(array_distinct(w), x -> xxhash64(x)), array(xxhash64(null))) word,
    coalesce(case when size(w) > 1 then transform(sequence(0, size(w) - 2), k -> xxhash64(w[k], w[k + 1])) end, array(xxhash64(null))) pair,
    coalesce(transform(array_distinct(q), x -> xxhash64(x)), array(xxhash64(null))) query_word,
    coalesce(transform(q, x -> xxhash64(x, category)), array(xxhash64(null))) asked,
    xxhash64(get_json_object(context, '$.slot')) slot, xxhash64(get_json_object(context, '$.test')) test, xxhash64(hour(to_timestamp(time))) hour,
    xxhash64(split_part(referrer, '.', 1)) site, coalesce(transform(interests_list, x -> xxhash64(x, category)), array(xxhash64(null))) likes,
    xxhash64(basic_os, basic_site) os_site, float(ln(1 + price)) price, float(size(w)) words from t"""


def csv_types(columns):
    return [c.split(":") for c in columns.split(",")]


def polars_csv(path, separator, columns):
    import polars as pl
    types = {"int8": pl.Int8, "int32": pl.Int32, "utf8": pl.String}
    schema = {n: types[t] for n, t in csv_types(columns)}
    with clock() as c:
        t = pl.read_csv(path, separator=bytes(separator, "ascii").decode("unicode_escape"), has_header=False, schema=schema,
                        quote_char=None)
    report(c, rows=t.height)


def duckdb_csv(path, separator, columns):
    import duckdb
    types = {"int8": "tinyint", "int32": "integer", "utf8": "varchar"}
    cols = ", ".join(f"'{n}': '{types[t]}'" for n, t in csv_types(columns))
    with clock() as c:
        t = duckdb.sql(f"select * from read_csv('{path}', delim='{separator}', header=false, quote='', columns={{{cols}}})").to_arrow_table()
    report(c, rows=t.num_rows)


def polars_json(path, *fields):
    import polars as pl
    with clock() as c:
        t = pl.scan_ndjson(path).select(fields).collect()
    report(c, rows=t.height)


def duckdb_json(path, *fields):
    import duckdb
    cols = ", ".join(f"'{n}': '{'integer' if n[0] != 'C' else 'varchar'}'" for n in fields)
    with clock() as c:
        t = duckdb.sql(f"select * from read_json('{path}', format='newline_delimited', columns={{{cols}}})").to_arrow_table()
    report(c, rows=t.num_rows)


def duckdb_stats(path):
    import duckdb
    import pyarrow as pa
    with clock() as c:
        l = pa.ipc.open_stream(pa.memory_map(path)).read_all()
        t = duckdb.sql("summarize select * from l").to_arrow_table()
    report(c, columns=t.num_rows)


def polars_stats(path):
    """Nulls, mean, deviation, extremes and quartiles; beside them the number of distinct values and the most frequent one."""
    import polars as pl
    with clock() as c:
        t = pl.read_ipc(path)
        d = t.describe()
        t.select(pl.all().approx_n_unique())
        t.select(pl.all().drop_nulls().mode().first())
    report(c, columns=d.width - 1, nulls=sum(float(x) for x in d.filter(pl.col("statistic") == "null_count").row(0)[1:]))


def polars_rank(path, way):
    import polars as pl
    with clock() as c:
        t = pl.scan_ipc(path).with_columns(ecpm=pl.col("bid") * pl.col("score"))
        if way == "sort":
            t = t.sort(["request", "ecpm"], descending=[False, True]).group_by("request", maintain_order=True).head(5)
        else:
            t = t.filter(pl.col("ecpm").rank("ordinal", descending=True).over("request") <= 5).sort(["request", "ecpm"], descending=[False, True])
        t = t.collect()
    report(c, rows=t.height, ecpm=t["ecpm"].sum())


def duckdb_rank(path):
    import duckdb
    import pyarrow as pa
    with clock() as c:
        l = pa.ipc.open_stream(pa.memory_map(path)).read_all()
        t = duckdb.sql("select *, bid * score ecpm from l qualify row_number() over (partition by request order by bid * score desc) <= 5 "
                       "order by request, ecpm desc").to_arrow_table()
    report(c, rows=t.num_rows, ecpm=float(t.column("ecpm").to_numpy().sum()))


def duckdb_history(path):
    import duckdb
    import pyarrow as pa
    with clock() as c:
        l = pa.ipc.open_stream(pa.memory_map(path)).read_all()
        t = duckdb.sql('select *, list(item) over w items, list(category) over w categories, list("time") over w times from l window w as '
                       '(partition by "user" order by "time" rows between 50 preceding and 1 preceding)').to_arrow_table()
    report(c, rows=t.num_rows, items=len(t.column("items").combine_chunks().flatten()))


def duckdb_count(path):
    import duckdb
    with clock() as c:
        t = duckdb.sql(f"select key, count(*) n from read_csv('{path}') group by key having n >= 2").to_arrow_table()
    report(c, keys=t.num_rows)


def numpy_gemm(m, n, k, transposed):
    """The fastest of several products, single precision, by the BLAS that numpy brings (OPENBLAS_NUM_THREADS threads)."""
    import numpy as np
    m, n, k = int(m), int(n), int(k)
    a, b, out = np.full((m, k), .5, np.float32), np.full((n, k) if int(transposed) else (k, n), .25, np.float32), np.empty((m, n), np.float32)
    best, start = None, time.perf_counter()
    while best is None or time.perf_counter() - start < 0.5:
        with clock() as c:
            np.matmul(a, b.T if int(transposed) else b, out=out)
        if best is None:
            best = c
        best.wall, best.cpu = min(best.wall, c.wall), min(best.cpu, c.cpu)
    report(best)


def parquet_make(kind, codec, log, to):
    """A log in Parquet as pyarrow writes it: of the stream of Criteo's columns, or of texts."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq
    if kind == "ads":
        t = pa.ipc.open_stream(pa.memory_map(log)).read_all()
    else:
        r, n = np.random.default_rng(1), 1000000
        word = np.array([f"word{i}" for i in range(5000)], object)
        text = lambda k: pa.array([" ".join(w) for w in word[r.zipf(1.3, (n, k)) % 5000]])
        t = pa.table({"click": pa.array((r.random(n) < .1).astype("int8")), "title": text(6), "query": text(3), "body": text(20),
                      "url": pa.array([f"https://h{a}.example/{b:x}?q={c}" for a, b, c in zip(*(r.integers(0, m, n) for m in (500, 10**9, 10**5)))]),
                      **{f"T{i}": text(2) for i in range(35)}})
    pq.write_table(t, to, compression=codec, row_group_size=1 << 20)
    print(json.dumps({"wall": 0, "cpu": 0}))


def parquet(how, path, columns, plan):
    """Parquet to features: `how` reads columns (- for all) and writes them as an Arrow stream to ctr-extract, whose time counts."""
    import resource
    import subprocess
    import pyarrow as pa
    names = None if columns == "-" else columns.split(",")
    if how == "pyarrow":
        import pyarrow.parquet as pq
    elif how == "duckdb":
        import duckdb
    else:
        import polars
    child = subprocess.Popen(["ctr-extract", "-q", plan], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    wall, cpu = time.perf_counter(), time.process_time()
    if how == "polars":
        t = polars.read_parquet(path, columns=names)
        t.write_ipc_stream(child.stdin)
    elif how == "pyarrow":
        f = pq.ParquetFile(path)
        with pa.ipc.new_stream(child.stdin, pq.read_schema(path) if names is None else f.read_row_group(0, names).schema) as w:
            for b in f.iter_batches(columns=names):
                w.write_batch(b)
    else:
        r = duckdb.sql(f"select {', '.join(names) if names else '*'} from '{path}'").to_arrow_reader(8192)
        with pa.ipc.new_stream(child.stdin, r.schema) as w:
            for b in r:
                w.write_batch(b)
    child.stdin.close()
    code = child.wait()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    if code:
        sys.exit(f"ctr-extract: {code}")
    print(json.dumps({"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu + used}))


if __name__ == "__main__":
    globals()[sys.argv[1].replace("-", "_")](*sys.argv[2:])
