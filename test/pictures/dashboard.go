// The panels of the Grafana dashboard, from its file: their positions and series.

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// A panel is a panel of the dashboard, with Grafana's fields. Its position is in 24ths of the
// width, and in rows.
type panel struct {
	Type    string `json:"type"`
	Title   string `json:"title"`
	GridPos struct{ X, Y, W, H float64 }
	Targets []struct {
		Legend string `json:"legendFormat"`
	} `json:"targets"`
}

// dashboard draws the layout.
func dashboard(root string) (*drawing, error) {
	text, err := os.ReadFile(filepath.Join(root, "deploy/grafana-nfsrdma.json"))
	if err != nil {
		return nil, err
	}
	var file struct {
		Panels []panel `json:"panels"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return nil, fmt.Errorf("dashboard: %w", err)
	}
	const width, left, top, gap, row, high = 900.0, 16.0, 48.0, 8.0, 26.0, 46.0
	height := top + gap
	for _, p := range file.Panels {
		switch {
		case p.Type == "row":
			height += row
		case p.GridPos.X == 0:
			height += high
		}
	}
	d := newDrawing("dashboard", "The panels of the Grafana dashboard, and their series", width, height)
	d.text(left+4, 30, "start", head, "ink", d.title)
	y, begun := top, -1.0
	for _, p := range file.Panels {
		if p.Type == "row" {
			d.text(left+4, y+18, "start", strong, "ink", p.Title)
			y += row
			continue
		}
		if p.GridPos.Y != begun {
			begun = p.GridPos.Y
			y += high
		}
		each := (width - 2*left) / 24
		d.add(`<rect class="f-panel s-rule" x="%g" y="%g" width="%g" height="%g" rx="4"/>`, round(left+each*p.GridPos.X), y-high, round(each*p.GridPos.W-gap), high-gap)
		d.text(left+each*p.GridPos.X+8, y-high+16, "start", small, "ink", p.Title)
		d.text(left+each*p.GridPos.X+8, y-high+32, "start", small, "dim", p.series())
	}
	return d, nil
}

// label matches a label in the name of a series.
var label = regexp.MustCompile(`\{\{(\w+)\}\}`)

// series returns the names of a panel's lines. Lines that differ only in labels are named by the
// labels. Bounds of other lines are left out.
func (p panel) series() string {
	var names []string
	for _, t := range p.Targets {
		name := strings.TrimRight(label.ReplaceAllString(t.Legend, ""), ": ")
		if name == "" {
			var labels []string
			for _, m := range label.FindAllStringSubmatch(t.Legend, -1) {
				labels = append(labels, strings.Replace(m[1], "instance", "server", 1))
			}
			name = "by " + strings.Join(labels, ", ")
		}
		if !slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(name, n) }) {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}
