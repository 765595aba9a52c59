from tuner.present.figures import DrawnFigure


def test_inline_keeps_what_a_text_says() -> None:
    svg = (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 9 9" width="9pt">'
        '<text x="1.23456" style="fill: #1b1f24"> a &lt; b #1 </text></svg>'
    )
    alt = 'said "so" & more'
    made = DrawnFigure(name="n", title="", caption="", alt=alt, svg=svg, png=b"").inline_svg
    assert '<text x="1.23" style="fill:var(--fig-ink)"> a &lt; b #1 </text>' in made
    assert 'aria-label="said &quot;so&quot; &amp; more"' in made
