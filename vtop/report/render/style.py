"""How the page looks: the colours of the light and the dark theme by meaning, and the little style that it needs."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from typing import Final

from vtop.report.render.vega import palette
from vtop.shipped import folder

_STYLE: Final = """
*{box-sizing:border-box}
body{margin:0;background:var(--background);color:var(--text);font:16px/1.5 system-ui,sans-serif}
main{max-width:76rem;margin:0 auto;padding:1.5rem 1rem 4rem}
h1{font-size:1.6rem;margin:0 0 .5rem}h2{font-size:1.35rem;margin:2.5rem 0 .5rem;padding-top:.75rem;border-top:1px solid
var(--border)}h3{font-size:1.1rem;margin:2rem 0 .5rem}
nav{font-size:.9rem;color:var(--dim)}nav a{margin-right:1rem;white-space:nowrap}a{color:var(--prefill)}
ul.findings{padding-left:1.1rem}ul.findings li{margin:.5rem 0}ul.findings strong{display:block;font-weight:600}
.evidence,.note,figcaption{color:var(--dim);font-size:.875rem}
dl{display:grid;grid-template-columns:max-content 1fr;gap:.15rem 1rem;background:var(--panel);border:1px solid
var(--border);border-radius:6px;padding:.75rem 1rem;margin:1rem 0}
dt{color:var(--dim)}dd{margin:0;overflow-wrap:anywhere}
.wide{overflow-x:auto;margin:.5rem 0}
table{border-collapse:collapse;font-size:.85rem;font-variant-numeric:tabular-nums}
caption{text-align:left;font-weight:600;padding:.5rem 0 .25rem}
th,td{padding:.2rem .6rem;text-align:right;border-bottom:1px solid var(--border);white-space:nowrap}
th.w,td.w{text-align:left;white-space:normal}td,tbody th{vertical-align:top}td.long{min-width:16rem}
thead th{color:var(--dim);font-weight:500;vertical-align:bottom}tbody th{font-weight:600}
td.met,td.fine{color:var(--good)}td.doubt,td.partly{color:var(--warn);font-weight:600}
td.not-met{color:var(--bad);font-weight:600}td.not-known,td.not-observable{color:var(--dim)}
figure{margin:1.5rem 0;break-inside:avoid}figure svg{display:block;width:100%;height:auto}
figure h4{margin:0 0 .5rem;font-size:1rem}
details{font-size:.875rem;color:var(--dim)}details.table{font-size:1rem;color:inherit;margin:.75rem 0}
details.table>summary{font-weight:600;font-size:.85rem;cursor:pointer}p.note{margin:.35rem 0}
pre{background:var(--panel);border:1px solid var(--border);border-radius:6px;
padding:.6rem .8rem;overflow-x:auto;font-size:.85rem}
footer{margin-top:3rem;color:var(--dim);font-size:.85rem}
@media print{body{font-size:11px}main{max-width:none;padding:0}nav{display:none}h2{break-before:page}
h2:first-of-type{break-before:auto}h3,h4,caption{break-after:avoid}tr,dl,li{break-inside:avoid}
table{font-size:8.5px}th,td{padding:.1rem .3rem;white-space:normal}.wide{overflow:visible}td.long{min-width:0}
pre{white-space:pre-wrap}a{color:inherit;text-decoration:none}figure details{display:none}
details.table::details-content{content-visibility:visible;block-size:auto;overflow:visible}}
"""


def css() -> str:
    """Light by default and in print; dark where the reader prefers that on a screen."""
    light, dark = _theme("light"), _theme("dark")
    return (
        f":root{{color-scheme:light dark;{_variables(light)}}}"
        f"@media screen and (prefers-color-scheme:dark){{:root{{{_variables(dark)}}}}}" + _STYLE.replace("\n", "")
    )


def _theme(name: str) -> Mapping[str, str]:
    return tomllib.loads((folder("themes") / f"{name}.toml").read_text(encoding="utf-8"))


def _variables(colours: Mapping[str, str]) -> str:
    more = "".join(f"--{role}:{colours[role]};" for role in ("background", "good", "warn"))
    return palette(colours) + more
