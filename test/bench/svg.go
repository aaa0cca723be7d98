// Line charts as SVG: doubling steps on the x axis, a rate from 0 on the y axis.

package main

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// A chart has curves over the same points.
type chart struct {
	Name   string   `json:"name"` // of the file
	Title  string   `json:"title"`
	X      string   `json:"x"` // title of the x axis
	Y      string   `json:"y"` // unit
	Places []string `json:"places"`
	Curves []curve  `json:"curves"`
}

// A curve has one value per point, never NaN; it ends at the first unmeasured point.
type curve struct {
	Name   string    `json:"name"`
	Values []float64 `json:"values"`
}

// Sizes in pixels: the drawing, and the frame of the curves.
const (
	chartWidth, chartHeight   = 640, 400
	frameLeft, frameTop       = 80, 50
	frameWidth, frameHeight   = 520, 270
	legendLeft, legendSpacing = 80, 170
	chartTicks                = 5
)

// curveColors are distinguishable for color-blind readers.
var curveColors = []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7"}

// svg draws the chart.
func (c chart) svg() string {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="12">`+"\n", chartWidth, chartHeight)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="white"/>`+"\n", chartWidth, chartHeight)
	text := func(x, y float64, anchor, s string) {
		fmt.Fprintf(&b, `<text x="%.1f" y="%.1f" text-anchor="%s">%s</text>`+"\n", x, y, anchor, html.EscapeString(s))
	}
	text(chartWidth/2, 24, "middle", c.Title)
	top := c.top()
	for i := range chartTicks + 1 {
		v := top * float64(i) / chartTicks
		y := frameTop + frameHeight*(1-v/top)
		fmt.Fprintf(&b, `<line x1="%d" y1="%.1f" x2="%d" y2="%.1f" stroke="#ddd"/>`+"\n", frameLeft, y, frameLeft+frameWidth, y)
		text(frameLeft-6, y+4, "end", tick(v))
	}
	for i, p := range c.Places {
		text(c.x(i), frameTop+frameHeight+18, "middle", p)
	}
	text(frameLeft+frameWidth/2, frameTop+frameHeight+36, "middle", c.X)
	text(frameLeft, frameTop-10, "end", c.Y)
	for i, k := range c.Curves {
		color := curveColors[i%len(curveColors)]
		points := make([]string, len(k.Values))
		for j, v := range k.Values {
			points[j] = fmt.Sprintf("%.1f,%.1f", c.x(j), frameTop+frameHeight*(1-v/top))
		}
		fmt.Fprintf(&b, `<polyline fill="none" stroke="%s" stroke-width="2" points="%s"/>`+"\n", color, strings.Join(points, " "))
		for _, p := range points {
			x, y, _ := strings.Cut(p, ",")
			fmt.Fprintf(&b, `<circle cx="%s" cy="%s" r="3" fill="%s"/>`+"\n", x, y, color)
		}
		x := float64(legendLeft + i*legendSpacing)
		fmt.Fprintf(&b, `<rect x="%.1f" y="%d" width="12" height="12" fill="%s"/>`+"\n", x, chartHeight-24, color)
		text(x+18, chartHeight-14, "start", k.Name)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// x returns the x coordinate of point i.
func (c chart) x(i int) float64 {
	if len(c.Places) < 2 {
		return frameLeft + frameWidth/2
	}
	return frameLeft + frameWidth*float64(i)/float64(len(c.Places)-1)
}

// top returns the end of the scale: 1, 2 or 5 times a power of ten, not below any value.
func (c chart) top() float64 {
	most := 0.0
	for _, k := range c.Curves {
		for _, v := range k.Values {
			most = max(most, v)
		}
	}
	if most == 0 {
		return 1
	}
	unit := math.Pow(10, math.Floor(math.Log10(most)))
	for _, m := range []float64{1, 2, 5} {
		if most <= m*unit {
			return m * unit
		}
	}
	return 10 * unit
}

// tick formats a value on the scale: 0.4, 20, 1500, 20k.
func tick(v float64) string {
	if v >= 10_000 {
		return fmt.Sprintf("%gk", v/1000)
	}
	return fmt.Sprintf("%g", math.Round(v*100)/100)
}
