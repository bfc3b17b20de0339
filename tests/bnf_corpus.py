"""Grammars with texts that they accept and reject, each for a feature. Written for this project."""

from __future__ import annotations

from dataclasses import dataclass

DEEP = 300


@dataclass(frozen=True)
class Case:
    name: str
    syntax: str
    text: str
    accepted: tuple[str, ...]
    rejected: tuple[str, ...]


def _case(name: str, syntax: str, text: str, accepted: list[str], rejected: list[str]) -> Case:
    return Case(name, syntax, text, tuple(accepted), tuple(rejected))


CORPUS = (
    # Texts, classes, repetition
    _case("one text", "gbnf", 'root ::= "abc"', ["abc"], ["", "ab", "abcd", "ABC"]),
    _case("the empty text", "gbnf", 'root ::= ""', [""], ["a", " "]),
    _case("alternatives", "gbnf", 'root ::= "a" | "bc" | "bd"', ["a", "bc", "bd"], ["", "b", "abc"]),
    _case("nothing or something", "gbnf", 'root ::= "a" |', ["", "a"], ["aa"]),
    _case("common beginnings", "gbnf", 'root ::= "abc" | "abd" | "ab"', ["ab", "abc", "abd"], ["a", "abe", "abcd"]),
    _case("a class", "gbnf", "root ::= [a-cx_]+", ["a", "cab", "x_x"], ["", "d", "A"]),
    _case("a class negated", "gbnf", r"root ::= [^a-z\n]*", ["", "A1 ", "\u00e9\u4e2d\U0001f600"], ["a", "\n", "Az"]),
    _case("wide characters", "gbnf", "root ::= [\u3041-\u309f]{2}", ["\u3042\u3044"], ["\u3042", "ab", "\u3042\u30a2"]),
    _case("characters by number", "gbnf", r"root ::= [\U0001F600-\U0001F64F] [\x41]", ["\U0001f601A"], ["\U0001f601a"]),
    _case("any character", "gbnf", "root ::= . . .", ["abc", "\n\n\n", "\U0001f600x\u00e9"], ["", "ab", "abcd"]),
    _case("option", "gbnf", 'root ::= "-"? [0-9]', ["1", "-1"], ["-", "--1", ""]),
    _case("counted", "gbnf", 'root ::= "ab"{2,3}', ["abab", "ababab"], ["ab", "abababab", "aba"]),
    _case("counted from below", "gbnf", "root ::= [0-9]{3,}", ["123", "1234567"], ["12", ""]),
    _case("exactly", "gbnf", 'root ::= [0-9]{4} "-" [0-9]{2}', ["2024-01"], ["202-01", "2024-1", "2024-011"]),
    _case("zero times", "gbnf", 'root ::= "a"{0} "b"', ["b"], ["ab", ""]),
    _case("many times", "gbnf", "root ::= [a-z]{0,50000}", ["", "a" * 50_000], ["a" * 50_001, "A"]),
    _case("counted groups", "gbnf", 'root ::= ("a" | "bc"){10,12}', ["a" * 10, "bc" * 12], ["a" * 9, "bc" * 13]),
    _case("repeats of repeats", "gbnf", 'root ::= (("a"*)+)*', ["", "a", "aaaa"], ["b", "ab"]),
    _case("nested counts", "gbnf", 'root ::= ("a"{2}){3}', ["aaaaaa"], ["aaaaa", "aaaaaaa", "aaaa"]),
    # Rules and recursion
    _case("rules", "gbnf", 'root ::= a b\na ::= "x" | b b\nb ::= "y"', ["xy", "yyy"], ["x", "yy", "xyy"]),
    _case("right recursion", "gbnf", 'root ::= "a" root | "b"', ["b", "ab", "a" * 999 + "b"], ["", "a", "ba"]),
    _case("left recursion", "gbnf", 'root ::= root "a" | "b"', ["b", "ba", "b" + "a" * 999], ["", "a", "ab"]),
    _case("both ways", "gbnf", 'root ::= root "+" root | "1"', ["1", "1+1", "1+1+1+1"], ["", "+", "1+", "11"]),
    _case(
        "hidden left recursion",
        "gbnf",
        'root ::= n root "a" | "b"\nn ::= "x"?',
        ["b", "ba", "xba", "xxbaa"],
        ["a", "xb"],
    ),
    _case(
        "indirect left recursion",
        "gbnf",
        'root ::= x\nx ::= y "b" | "c"\ny ::= x "a"',
        ["c", "cab", "cabab"],
        ["ca", "ab"],
    ),
    _case("nullable loop", "gbnf", 'root ::= (("a"?)* "b"?)*', ["", "a", "b", "abba"], ["c"]),
    _case("all nullable", "gbnf", 'root ::= a b a\na ::= "x"?\nb ::= a a', ["", "x", "xxxx"], ["xxxxx", "y"]),
    _case(
        "brackets",
        "gbnf",
        'root ::= "(" root ")" root |',
        ["", "()", "(())()", "(" * DEEP + ")" * DEEP],
        ["(", ")", "(()"],
    ),
    _case(
        "two kinds of brackets", "gbnf", 'root ::= ("(" root ")" | "[" root "]")*', ["", "([])[]"], ["([)]", "(", "]"]
    ),
    _case("a^n b^n", "gbnf", 'root ::= "a" root "b" | "ab"', ["ab", "aaabbb"], ["", "aab", "abb", "abab"]),
    _case(
        "a^n b^n c^m", "gbnf", 'root ::= ab c\nab ::= ("a" ab "b")?\nc ::= "c"*', ["", "aabbc", "ccc"], ["aabc", "ba"]
    ),
    _case(
        "palindromes", "gbnf", 'root ::= "a" root "a" | "b" root "b" | [ab]?', ["", "a", "abba", "ababa"], ["ab", "aab"]
    ),
    _case(
        "not a^n b^n alone",
        "gbnf",
        'root ::= ab | "a"* "c"\nab ::= "a" ab "b" | "ab"',
        ["aabb", "aaac", "c"],
        ["aab", "aabbc"],
    ),
    _case("ambiguous a's", "gbnf", 'root ::= root root | "a"', ["a", "aa", "a" * 40], ["", "b"]),
    _case(
        "dangling else",
        "gbnf",
        'root ::= "i" root | "i" root "e" root | "s"',
        ["s", "is", "iises", "iiseses"],
        ["i", "es", "ise"],
    ),
    _case(
        "odd or even",
        "gbnf",
        'root ::= even\neven ::= "a" odd |\nodd ::= "a" even',
        ["", "aa", "a" * 100],
        ["a", "a" * 99],
    ),
    _case(
        "mutual recursion",
        "gbnf",
        'root ::= l\nl ::= "[" (v ("," v)*)? "]"\nv ::= l | [0-9]+',
        ["[]", "[1,[2,[]],3]"],
        ["[", "[,]", "1"],
    ),
    _case(
        "equal numbers in any order",
        "gbnf",
        'root ::= ("a" root "b" | "b" root "a") root |',
        ["", "ab", "baab", "bbaaab"],
        ["a", "aab"],
    ),
    _case(
        "needs one look ahead",
        "gbnf",
        'root ::= x "c" | y "d"\nx ::= "a" x | "b"\ny ::= "a" y | "b"',
        ["abc", "aabd", "bd"],
        ["ab", "abe"],
    ),
    _case(
        "splits of one run", "gbnf", "root ::= [a-z]+ [a-z0-9]+ [0-9]", ["ab1", "abc12", "a11"], ["a1", "1ab1", "abc"]
    ),
    _case(
        "words and keywords", "gbnf", 'root ::= ("if" | [a-z]+) " " [a-z]+', ["if x", "iff x", "a if"], ["if", "if 1"]
    ),
    # Formats of the world
    _case("a list", "gbnf", 'root ::= ("- " [^\\n]+ "\\n")+', ["- a\n", "- a b\n- c\n"], ["", "- \n", "- a", "a\n"]),
    _case(
        "a date",
        "gbnf",
        'root ::= [12] [0-9]{3} "-" ("0" [1-9] | "1" [0-2])',
        ["1999-12", "2024-01"],
        ["3000-01", "1999-13"],
    ),
    _case(
        "an address",
        "gbnf",
        'root ::= b "." b "." b "." b\nb ::= "25" [0-5] | "2" [0-4] [0-9] | [01]? [0-9]? [0-9]',
        ["127.0.0.1", "255.255.255.255"],
        ["256.0.0.1", "1.2.3"],
    ),
    _case(
        "chess moves",
        "gbnf",
        'root ::= ([1-9] [0-9]? ". " move (" " move)? "\\n")+\n'
        'move ::= ([NBRQK]? [a-h]? [1-8]? "x"? [a-h] [1-8] | "O-O" "-O"?) [+#]?',
        ["1. e4 e5\n", "1. e4 e5\n2. Nf3 Nc6\n3. O-O O-O-O#\n"],
        ["e4", "1. e9 e5\n", "1. e4 e5"],
    ),
    _case(
        "arithmetic",
        "gbnf",
        'root ::= e\ne ::= e [-+] t | t\nt ::= t [*/] f | f\nf ::= [0-9]+ | "(" e ")" | "-" f',
        ["1", "1+2*3", "-(1-2)/3"],
        ["", "1+", "(1", "1 + 2"],
    ),
    _case(
        "JSON by rules",
        "gbnf",
        r"""root ::= value
value ::= object | array | string | number | ("true" | "false" | "null") ws
object ::= "{" ws (string ":" ws value ("," ws string ":" ws value)*)? "}" ws
array ::= "[" ws (value ("," ws value)*)? "]" ws
string ::= "\"" ([^"\\\x00-\x1F] | "\\" (["\\bfnrt/] | "u" [0-9a-fA-F]{4}))* "\"" ws
number ::= "-"? ("0" | [1-9] [0-9]*) ("." [0-9]+)? ([eE] [-+]? [0-9]+)? ws
ws ::= [ \t\n]*""",
        ["{}", '{"a": [1, 2.5e3, "\\u00e9"], "b": null}', "[[[]]]"],
        ["{", '{"a"}', "[1,]", "01", '"\n"'],
    ),
    _case(
        "XML",
        "gbnf",
        'root ::= "<" n a* (">" c "</" n ">" | "/>")\nn ::= [a-z]+\n'
        'a ::= " " n "=\\"" [^"<]* "\\""\nc ::= (root | [^<>]+)*',
        ['<a b="1"><c/>text</a>', "<a></b>", "<a/>"],
        ["<a>", "<a b=1/>", "a"],
    ),
    _case(
        "S-expressions",
        "gbnf",
        'root ::= "(" root (" " root)* ")" | [a-z]+ | [0-9]+',
        ["a", "(a (b 1) 2)"],
        ["()", "(a", "(a  b)"],
    ),
    _case(
        "CSV",
        "gbnf",
        'root ::= row ("\\n" row)*\nrow ::= f ("," f)*\nf ::= [^",\\n]* | "\\"" ([^"] | "\\"\\"")* "\\""',
        ["", "a,b\nc,d", '"a,""b",c'],
        ['"a', 'a"b'],
    ),
    # EBNF
    _case(
        "options and macros",
        "ebnf",
        'root[capture="r"] ::= "ID-" Regex("[0-9]{5}")',
        ["ID-12345"],
        ["ID-1234", "ID-123456"],
    ),
    _case("committed shortest", "ebnf", 'root ::= "<" name ">"\nname[lazy] ::= [a-z]+', ["<a>"], ["<ab>", "<>"]),
    _case(
        "substrings",
        "ebnf",
        'root ::= Substring("the ", "quick ", "fox")',
        ["", "the quick ", "quick fox"],
        ["the fox", "qui"],
    ),
    _case(
        "tag dispatch",
        "ebnf",
        'root ::= TagDispatch(("<n>", n))\nn ::= [0-9]+ "</n>"',
        ["", "hello <n", "a <n>12</n> b"],
        ["<n>", "<n>x</n>", "a<n>1"],
    ),
    _case(
        "tag dispatch once",
        "ebnf",
        'root ::= TagDispatch(("<n>", n), loop_after_dispatch=false, excludes=("!",)) "."\nn ::= [0-9]',
        ["x<n>1.", "x."],
        ["x<n>1x.", "x!."],
    ),
    # Lark
    _case("rules and terminals", "lark", 'start: WORD ("," WORD)*\nWORD: /[a-z]+/', ["a", "a,bc"], ["", "a,", "A"]),
    _case(
        "ignored space",
        "lark",
        '%import common.INT\n%ignore / +/\nstart: "sum" INT+',
        ["sum1", "sum 1 2  3 "],
        ["sum", " sum 1"],
    ),
    _case("not inside terminals", "lark", '%ignore " "\nstart: N N\nN: "a" "b"', ["abab", "ab ab"], ["a bab", "ab"]),
    _case("any case", "lark", 'start: "select"i " " /[a-z]+/i', ["SELECT x", "Select Xy"], ["sel x", "select 1"]),
    _case("ranges and counts", "lark", 'start: "a".."f"~2..3 "x"{2}', ["abxx", "fffxx"], ["axx", "ggxx", "abx"]),
    _case("optional brackets", "lark", 'start: ["-"] DIGIT+\n%import common.DIGIT', ["1", "-12"], ["-", "--1"]),
    _case(
        "both and not",
        "lark",
        'start: NAME\nNAME: /[a-z]+/ & ~("if" | "else")',
        ["i", "iff", "elsewhere"],
        ["if", "else", ""],
    ),
    _case(
        "a suffix",
        "lark",
        'start: body "ok"\nbody[suffix="--"]: /[a-z-]*/',
        ["abc--ok", "--ok", "a-b--ok"],
        ["abcok", "a--b--ok"],
    ),
    _case(
        "a schema inside",
        "lark",
        'start: "x=" %json {"type": "integer"} ";"',
        ["x=12;", "x=-3;"],
        ["x=1.5;", "x=;", "x=12"],
    ),
    _case(
        "a floating number",
        "lark",
        "%import common.SIGNED_NUMBER\nstart: SIGNED_NUMBER",
        ["1", "-1.5e+3", ".5", "2."],
        ["", "e5", "--1"],
    ),
    # GrammarBNF
    _case("intersection", "grammarbnf", 'root ::= [a-z]{2,4} & ~(.* "x" .*)', ["ab", "abcd"], ["ax", "xxxx", "a"]),
    _case(
        "complement of rules",
        "grammarbnf",
        'root ::= word & ~key\nword ::= [a-z]+\nkey ::= "let" | "in"',
        ["le", "letin"],
        ["let", "in"],
    ),
    _case("shortest", "grammarbnf", 'root ::= "/*" shortest(.* "*/")', ["/**/", "/* a * b */"], ["/* */ */", "/*/"]),
    _case(
        "regular expressions",
        "grammarbnf",
        r'root ::= /[a-z]+(?:-[a-z]+)*/ "@" /\d{2,}/',
        ["a-b@12", "abc@123"],
        ["-a@12", "a@1"],
    ),
    _case(
        "a schema",
        "grammarbnf",
        'root ::= "r: " json_schema({"enum": ["a", 1, null]}, whitespace="compact")',
        ['r: "a"', "r: 1", "r: null"],
        ["r: 2", "r: ", '"a"'],
    ),
    _case(
        "schemas side by side",
        "grammarbnf",
        'root ::= json_schema({"type": "array", "items": {"type": "boolean"}}) "\\n" json_schema({"type": "object"})',
        ["[true]\n{}", '[]\n{"a": {}}'],
        ["[1]\n{}", "[]", "[]\n[]"],
    ),
    _case(
        "recursive around a schema",
        "grammarbnf",
        'root ::= "(" root ")" | json_schema({"type": "integer"})',
        ["1", "((12))"],
        ["(1", "(1))", "()"],
    ),
    _case(
        "tags",
        "grammarbnf",
        'root ::= tags(tag("<f>", json_schema({"type": "integer"}), "</f>"), tag("<g>", [a-z]+, "</g>"))',
        ["", "no tags", "a <f>12</f> b <g>x</g>", "<f"],
        ["<f>x</f>", "<g></g>", "a <f>1"],
    ),
    _case(
        "at least one tag",
        "grammarbnf",
        'root ::= tags(tag("<f>", [0-9], ">"), at_least_one=true)',
        ["<f>1>", "a<f>1>b"],
        ["", "a", "<f>"],
    ),
    _case(
        "one tag and the end",
        "grammarbnf",
        'root ::= tags(tag("<f>", [0-9], ">"), at_least_one=true, stop_after_first=true)',
        ["<f>1>", "a<f>1>"],
        ["a", "<f>1>b"],
    ),
    _case(
        "imports",
        "grammarbnf",
        '%import numbers.integer\n%import dates.date as day\nroot ::= day " " integer',
        ["2024-02-29 12", "1999-12-31 -5"],
        ["2024-02-30 1", "2024-02-01 01"],
    ),
    _case(
        "a call of Python",
        "grammarbnf",
        "%import python_call.call\nroot ::= call",
        ["f()", 'a.b(1, "x", k=[True, None])'],
        ["f(", "f(k=1, 2)", "True()"],
    ),
    _case(
        "a query of SQL",
        "grammarbnf",
        "%import sql.query\nroot ::= query",
        ["SELECT * FROM t", "select a, count(*) from t where a > 1 and b is not null group by a limit 5"],
        ["SELECT FROM t", "SELECT * FROM t WHERE", "DROP TABLE t"],
    ),
    _case(
        "arithmetic of the library",
        "grammarbnf",
        "%import arithmetic.expression\nroot ::= expression",
        ["1+2", "f(x, 2)^-3 * (a - b)"],
        ["1+", "(", "2 2"],
    ),
)
