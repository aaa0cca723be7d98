// Charts: bars from the tables in docs/performance.md.

package main

import "fmt"

// A bar is a value in the color of its series.
type bar struct {
	series int
	cell
}

// A group has the bars of one measurement.
type group struct {
	label, note string
	bars        []bar
}

// rows returns the height of a group in bars: label and note need two.
func (g group) rows() float64 {
	n := len(g.bars)
	if g.note != "" {
		n = max(n, 2)
	}
	return float64(n)
}

// A chart has horizontal bars over an axis that starts at 0.
type chart struct {
	name, title, axis string
	series, colors    []string
	groups            []group
	top, step         float64 // the end of the axis, and the distance of its lines
	one               string  // label of the line at 1, or ""
}

const (
	chartWidth = 820.0
	barsLeft   = 260.0
	barsRight  = 730.0
	barHeight  = 17.0
	groupGap   = 16.0
)

func (c *chart) draw() *drawing {
	height := 112.0
	for _, g := range c.groups {
		height += g.rows()*barHeight + groupGap
	}
	d := newDrawing(c.name, c.title, chartWidth, height)
	d.text(20, 32, "start", head, "ink", c.title)
	x := 20.0
	for i, s := range c.series {
		d.add(`<rect class="f-%s" x="%g" y="47" width="13" height="13" rx="2"/>`, c.colors[i], x)
		d.text(x+19, 58, "start", small, "ink", s)
		x = d.texts[len(d.texts)-1].right() + 16
	}
	at := func(v float64) float64 { return barsLeft + (barsRight-barsLeft)*v/c.top }
	first, last := 76.0, height-32
	for v := 0.0; v <= c.top+c.step/2; v += c.step {
		d.line(at(v), first, at(v), last, "rule", 1, "")
		d.text(at(v), last+16, "middle", small, "dim", withCommas(v))
	}
	d.text(20, last+16, "start", small, "dim", c.axis)
	y := first + groupGap/2
	for _, g := range c.groups {
		rows := g.rows()
		mid := y + rows*barHeight/2
		if g.note == "" {
			d.text(barsLeft-12, mid+5, "end", normal, "ink", g.label)
		} else {
			d.text(barsLeft-12, mid-2, "end", normal, "ink", g.label)
			d.text(barsLeft-12, mid+14, "end", small, "dim", g.note)
		}
		top := mid - float64(len(g.bars))*barHeight/2
		for _, b := range g.bars {
			d.add(`<rect class="f-%s" x="%g" y="%g" width="%g" height="%g"/>`, c.colors[b.series], barsLeft, round(top), round(at(b.value)-barsLeft), barHeight-3)
			end := b.value
			if c.one != "" {
				end = max(end, 1) // the line at 1 must not cross words
			}
			d.text(at(end)+6, top+barHeight-6, "start", small, "ink", b.words)
			top += barHeight
		}
		y += rows*barHeight + groupGap
	}
	if c.one != "" {
		d.line(at(1), first, at(1), last, "ink", 1.5, "4 3")
		d.text(barsRight, 58, "end", small, "dim", c.one)
	}
	return d
}

// withCommas formats a whole number as in the tables of docs/performance.md.
func withCommas(v float64) string {
	if v < 1000 {
		return fmt.Sprint(v)
	}
	return fmt.Sprintf("%d,%03d", int(v)/1000, int(v)%1000)
}

// Columns and sections of docs/performance.md used by charts.
const (
	smallCalls     = "Small calls"
	largeTransfers = "Large transfers"
	mounts         = "A mount"

	besideOwn     = "beside own TCP"
	besideGanesha = "beside nfs-ganesha"
)

var versus = []string{"beside nfs-ganesha 4.3 over TCP", "beside nfsrdmad's own NFS over TCP"}

// charts returns all charts.
func charts(f *figures) []*drawing {
	both := func(label, section, row, column string) group {
		return group{label, f.at(section, row, column).words, []bar{{0, f.at(section, row, besideGanesha)}, {1, f.at(section, row, besideOwn)}}}
	}
	ratios := []group{
		both("GETATTR", smallCalls, "GETATTR", "RDMA"),
		both("LOOKUP", smallCalls, "LOOKUP", "RDMA"),
		both("READ of 4 KiB", smallCalls, "READ of 4 KiB, random", "RDMA"),
		both("WRITE of 4 KiB", smallCalls, "WRITE of 4 KiB, random", "RDMA"),
		both("READ of 1 MiB", largeTransfers, "READ, RDMA, CRC on", "rate"),
		both("WRITE of 1 MiB, COMMIT", largeTransfers, "WRITE and COMMIT, RDMA, CRC on", "rate"),
	}
	hero := chart{name: "hero", title: "NFS over RDMA, in software: how many times as fast", axis: "ratio; 8 calls in flight, CRC on",
		series: versus, colors: []string{"rdma", "tcp"}, groups: ratios, top: 6, step: 1, one: "dashed line: as fast"}

	rate := func(label, row string, series int) group {
		return group{label, "", []bar{{series, f.at(largeTransfers, row, "rate")}}}
	}
	large := chart{name: "large-transfers", title: "Transfers of 1 MiB, 8 in flight", axis: "MiB/s",
		series: []string{"over RDMA", "over TCP"}, colors: []string{"rdma", "tcp"}, top: 5000, step: 1000, groups: []group{
			rate("READ, CRC on", "READ, RDMA, CRC on", 0), rate("READ, CRC off", "READ, RDMA, CRC off", 0), rate("READ, TCP", "READ, TCP", 1),
			rate("WRITE, CRC on", "WRITE and COMMIT, RDMA, CRC on", 0), rate("WRITE, CRC off", "WRITE and COMMIT, RDMA, CRC off", 0)}}

	took := func(label, row string, series int) group {
		return group{label, "", []bar{{series, f.at(smallCalls, row, "time")}}}
	}
	latency := chart{name: "latency", title: "One call at a time: how long it takes", axis: "µs, less is better",
		series: []string{"over RDMA", "over TCP"}, colors: []string{"rdma", "tcp"}, top: 50, step: 10, groups: []group{
			took("NULL", "NULL, RDMA", 0), took("NULL, TCP", "NULL, TCP", 1), took("GETATTR", "GETATTR, RDMA", 0),
			took("NULL, beside READs", "NULL, RDMA, next to a READ stream", 0)}}

	return []*drawing{hero.draw(), large.draw(), latency.draw()}
}
