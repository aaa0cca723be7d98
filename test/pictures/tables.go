// The charts' figures: table cells of docs/performance.md, so that chart and table cannot differ.

package main

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A table has its section, its header and its rows.
type table struct {
	section string
	header  []string
	rows    [][]string
}

// readTables finds the tables of a page.
func readTables(page string) (all []table) {
	section, in := "", false
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line)
		if title, ok := strings.CutPrefix(line, "## "); ok {
			section = title
		}
		if !strings.HasPrefix(line, "|") {
			in = false
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i, c := range cells {
			cells[i] = strings.TrimSpace(c)
		}
		switch {
		case !in:
			all, in = append(all, table{section: section, header: cells}), true
		case strings.Trim(strings.Join(cells, ""), "-: ") != "":
			t := &all[len(all)-1]
			t.rows = append(t.rows, cells)
		}
	}
	return all
}

// A cell is a table cell's text, and the number in it.
type cell struct {
	words string
	value float64
}

var (
	firstNumber = regexp.MustCompile(`[0-9][0-9,]*(\.[0-9]+)?`)
	markup      = regexp.MustCompile("[`*]")
)

// figures are a page's tables. err is about the first requested cell that is missing.
type figures struct {
	tables []table
	err    error
}

// at returns the cell in a row and a named column, in a section.
func (f *figures) at(section, row, column string) cell {
	for _, t := range f.tables {
		i := slices.Index(t.header, column)
		if t.section != section || i < 0 {
			continue
		}
		for _, cells := range t.rows {
			if markup.ReplaceAllString(cells[0], "") != row || i >= len(cells) {
				continue
			}
			value, err := strconv.ParseFloat(strings.ReplaceAll(firstNumber.FindString(cells[i]), ",", ""), 64)
			if err == nil {
				return cell{cells[i], value}
			}
		}
	}
	if f.err == nil {
		f.err = fmt.Errorf("no figure for %q, %q, in section %q", row, column, section)
	}
	return cell{}
}
