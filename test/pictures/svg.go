// A drawing as SVG: a card with its own background, in light and dark colors.

package main

import (
	"fmt"
	"html"
	"math"
	"strings"
	"unicode/utf8"
)

// colors are the classes of fills (f-) and strokes (s-): name, light color, dark color.
var colors = []struct{ name, light, dark string }{
	{"card", "#ffffff", "#0d1117"},
	{"panel", "#f3f5f7", "#1b212a"},
	{"rule", "#d0d7de", "#3d444d"},
	{"ink", "#1f2328", "#e6edf3"},
	{"dim", "#59636e", "#9aa4af"},
	{"rdma", "#0969da", "#4493f8"},
	{"tcp", "#bc4c00", "#f0883e"},
	{"good", "#1a7f37", "#3fb950"},
	{"bad", "#cf222e", "#ff7b72"},
	{"shade", "#ddeaf9", "#12294a"},
}

// A size is a text size: its class, its height in pixels, and a character's width relative to that,
// for wide fonts such as DejaVu Sans.
type size struct {
	class  string
	height float64
	room   float64
}

var (
	head   = size{"t", 17, 0.66}
	normal = size{"n", 14, 0.58}
	strong = size{"b", 14, 0.66}
	small  = size{"c", 12.5, 0.58}
	mono   = size{"m", 13, 0.62}

	monoStrong = size{"m b", 13, 0.62}
)

// minText is the minimum text height, in pixels.
const minText = 12

// An area is a rectangle in a drawing.
type area struct{ x, y, w, h float64 }

func (a area) right() float64  { return a.x + a.w }
func (a area) bottom() float64 { return a.y + a.h }
func (a area) midX() float64   { return a.x + a.w/2 }
func (a area) midY() float64   { return a.y + a.h/2 }

// holds reports whether a contains b.
func (a area) holds(b area) bool {
	return b.x >= a.x && b.y >= a.y && b.right() <= a.right() && b.bottom() <= a.bottom()
}

// meets reports whether two areas overlap.
func (a area) meets(b area) bool {
	return a.x < b.right() && b.x < a.right() && a.y < b.bottom() && b.y < a.bottom()
}

// A drawing collects elements. faults has its unreadable parts, such as overlapping texts.
type drawing struct {
	name   string // of the file
	title  string // for screen readers
	card   area
	body   strings.Builder
	texts  []area
	words  []string // words of each text
	faults []string
}

func newDrawing(name, title string, width, height float64) *drawing {
	return &drawing{name: name, title: title, card: area{0, 0, width, height}}
}

func (d *drawing) add(format string, args ...any) { fmt.Fprintf(&d.body, format+"\n", args...) }

// svg returns the drawing's file.
func (d *drawing) svg() string {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%g" height="%g" viewBox="0 0 %[1]g %[2]g" role="img">`+"\n", d.card.w, d.card.h)
	fmt.Fprintf(&b, "<title>%s</title>\n<style>\n", html.EscapeString(d.title))
	b.WriteString("text{font-family:\"Segoe UI\",\"Helvetica Neue\",Arial,\"DejaVu Sans\",sans-serif}\n")
	for _, s := range []size{head, normal, strong, small, mono} {
		fmt.Fprintf(&b, ".%s{font-size:%gpx}", s.class, s.height)
	}
	b.WriteString(".t,.b{font-weight:600}text.m{font-family:\"DejaVu Sans Mono\",Menlo,Consolas,monospace}\n")
	light, dark := "", ""
	for _, c := range colors {
		light += fmt.Sprintf(".f-%s{fill:%s}.s-%[1]s{stroke:%[2]s}", c.name, c.light)
		dark += fmt.Sprintf(".f-%s{fill:%s}.s-%[1]s{stroke:%[2]s}", c.name, c.dark)
	}
	fmt.Fprintf(&b, "%s\n@media(prefers-color-scheme:dark){%s}\n</style>\n", light, dark)
	fmt.Fprintf(&b, `<rect class="f-card s-rule" x="0.5" y="0.5" width="%g" height="%g" rx="8"/>`+"\n", d.card.w-1, d.card.h-1)
	return b.String() + d.body.String() + "</svg>\n"
}

// text writes a line. anchor is start, middle or end; y is the baseline.
func (d *drawing) text(x, y float64, anchor string, s size, color, line string) {
	w := float64(utf8.RuneCountInString(line)) * s.height * s.room
	at := area{x, y - 0.8*s.height, w, s.height}
	switch anchor {
	case "middle":
		at.x -= w / 2
	case "end":
		at.x -= w
	}
	if !d.card.holds(at) {
		d.faults = append(d.faults, fmt.Sprintf("%q leaves the card", line))
	}
	if s.height < minText {
		d.faults = append(d.faults, fmt.Sprintf("%q is %g pixels high", line, s.height))
	}
	for i, other := range d.texts {
		if at.meets(other) {
			d.faults = append(d.faults, fmt.Sprintf("%q covers %q", line, d.words[i]))
		}
	}
	d.texts, d.words = append(d.texts, at), append(d.words, line)
	d.add(`<text xml:space="preserve" class="%s f-%s" x="%g" y="%g" text-anchor="%s">%s</text>`, s.class, color, round(x), round(y), anchor, html.EscapeString(line))
}

// lines writes several lines, one below the other, and returns the next line's y.
func (d *drawing) lines(x, y float64, anchor string, s size, color string, lines ...string) float64 {
	for _, l := range lines {
		d.text(x, y, anchor, s, color, l)
		y += math.Ceil(1.35 * s.height)
	}
	return y
}

// box draws a rectangle with centered lines, the first one bold.
func (d *drawing) box(a area, fill, stroke string, lines ...string) {
	d.add(`<rect class="f-%s s-%s" x="%g" y="%g" width="%g" height="%g" rx="6" stroke-width="1.5"/>`, fill, stroke, a.x, a.y, a.w, a.h)
	const step = 18
	y := a.midY() + 5 - step*float64(len(lines)-1)/2
	for i, l := range lines {
		s, color := small, "dim"
		if i == 0 {
			s, color = strong, "ink"
		}
		n := len(d.texts)
		d.text(a.midX(), y, "middle", s, color, l)
		if !a.holds(d.texts[n]) {
			d.faults = append(d.faults, fmt.Sprintf("%q leaves its box", l))
		}
		y += step
	}
}

// line draws a line; dash is empty or a pattern of lengths.
func (d *drawing) line(x1, y1, x2, y2 float64, color string, width float64, dash string) {
	if dash != "" {
		dash = ` stroke-dasharray="` + dash + `"`
	}
	d.add(`<line class="s-%s" x1="%g" y1="%g" x2="%g" y2="%g" stroke-width="%g"%s/>`, color, round(x1), round(y1), round(x2), round(y2), width, dash)
}

// arrow draws a line with a head at its end.
func (d *drawing) arrow(x1, y1, x2, y2 float64, color string, width float64) {
	length := math.Hypot(x2-x1, y2-y1)
	ux, uy := (x2-x1)/length, (y2-y1)/length
	back, half := 7+width, 3+width
	d.line(x1, y1, x2-back*ux, y2-back*uy, color, width, "")
	d.add(`<polygon class="f-%s" points="%g,%g %g,%g %g,%g"/>`, color, round(x2), round(y2),
		round(x2-back*ux-half*uy), round(y2-back*uy+half*ux), round(x2-back*ux+half*uy), round(y2-back*uy-half*ux))
}

// round rounds to a tenth of a pixel.
func round(v float64) float64 { return math.Round(10*v) / 10 }
