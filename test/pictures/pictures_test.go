// The pictures: up to date, legible, and shown with words for readers who cannot see them.

package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

// TestPicturesAreUpToDate: docs/img has the charts and drawings that this code makes from the
// current tables.
func TestPicturesAreUpToDate(t *testing.T) {
	all, err := drawings(root)
	if err != nil {
		t.Fatalf("drawings: %v", err)
	}
	for _, d := range all {
		got, err := os.ReadFile(filepath.Join(root, folder, d.name+".svg"))
		if err != nil {
			t.Errorf("os.ReadFile: %v", err)
			continue
		}
		if want := d.svg(); string(got) != want {
			t.Errorf("%s.svg is out of date: run go run ./test/pictures\ngot:\n%s\nwant:\n%s", d.name, got, want)
		}
	}
}

// TestPicturesAreLegible: no text covers another or leaves its box, and each picture is XML.
func TestPicturesAreLegible(t *testing.T) {
	all, err := drawings(root)
	if err != nil {
		t.Fatalf("drawings: %v", err)
	}
	for _, d := range all {
		for _, fault := range d.faults {
			t.Errorf("%s: %s", d.name, fault)
		}
		wellFormed(t, d.name, d.svg())
	}
	top, err := os.ReadFile(filepath.Join(root, folder, "top.svg"))
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	wellFormed(t, "top", string(top))
}

func wellFormed(t *testing.T, name, svg string) {
	t.Helper()
	for r := xml.NewDecoder(strings.NewReader(svg)); ; {
		if _, err := r.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
}

// TestFaultsAreFound: a drawing reports unreadable parts.
func TestFaultsAreFound(t *testing.T) {
	for want, draw := range map[string]func(d *drawing){
		"covers": func(d *drawing) {
			d.text(10, 20, "start", normal, "ink", "one")
			d.text(14, 24, "start", normal, "ink", "two")
		},
		"leaves the card": func(d *drawing) { d.text(95, 20, "start", normal, "ink", "too long") },
		"leaves its box":  func(d *drawing) { d.box(area{10, 10, 20, 20}, "panel", "ink", "wide") },
		"pixels high":     func(d *drawing) { d.text(10, 20, "start", size{"c", 11, 0.6}, "ink", "low") },
		"":                func(d *drawing) { d.box(area{10, 10, 80, 60}, "panel", "ink", "one", "two") },
	} {
		d := newDrawing("x", "x", 100, 100)
		draw(d)
		got := strings.Join(d.faults, "; ")
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("got faults %q, want %q", got, want)
		}
	}
}

var (
	picture = regexp.MustCompile(`!\[([^\]]*)\]\(([^)]+)\)`)
	decimal = regexp.MustCompile(`[0-9]+\.[0-9]+`)
)

// TestPicturesAreShown: each file in docs/img is small, stands on a page, and has words in its
// place there, with current ratios.
func TestPicturesAreShown(t *testing.T) {
	const (
		most     = 150_000 // bytes
		altWords = 6
	)
	results, err := os.ReadFile(filepath.Join(root, figuresPage))
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	shown := map[string]bool{}
	pages, err := filepath.Glob(filepath.Join(root, "docs/*.md"))
	if err != nil {
		t.Fatalf("filepath.Glob: %v", err)
	}
	for _, page := range append(pages, filepath.Join(root, "README.md")) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatalf("os.ReadFile: %v", err)
		}
		for _, m := range picture.FindAllStringSubmatch(string(text), -1) {
			shown[filepath.Join(filepath.Dir(page), m[2])] = true
			if n := len(strings.Fields(m[1])); n < altWords {
				t.Errorf("%s: got %d words in place of %s, want at least %d", page, n, m[2], altWords)
			}
			for _, ratio := range decimal.FindAllString(m[1], -1) {
				if !strings.Contains(string(results), ratio+"×") {
					t.Errorf("%s: %s has the ratio %s, and %s has not", page, m[2], ratio, figuresPage)
				}
			}
		}
	}
	files, err := filepath.Glob(filepath.Join(root, folder, "*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d pictures, %v", len(files), err)
	}
	for _, file := range files {
		if !shown[file] {
			t.Errorf("no page shows %s", file)
		}
		if info, err := os.Stat(file); err != nil || info.Size() > most {
			t.Errorf("%s: got %v, %v; want at most %d bytes", file, info.Size(), err, most)
		}
	}
}

// TestTables: cells are found by section, row and column; a missing cell is an error.
func TestTables(t *testing.T) {
	const page = "## One\n\n| call | time | beside |\n|---|---|---|\n| `GET` | 213,470.5 calls/s | 2× |\n\n## Two\n\n| call | time |\n|---|---|\n| `GET` | none |\n"
	f := figures{tables: readTables(page)}
	if got := f.at("One", "GET", "time"); got.value != 213_470.5 || got.words != "213,470.5 calls/s" || f.err != nil {
		t.Errorf("got %+v, %v", got, f.err)
	}
	for _, missing := range [][3]string{{"Two", "GET", "time"}, {"One", "PUT", "time"}, {"One", "GET", "size"}, {"Three", "GET", "time"}} {
		f := figures{tables: readTables(page)}
		if got := f.at(missing[0], missing[1], missing[2]); f.err == nil {
			t.Errorf("%q: got %+v, want an error", missing, got)
		}
	}
}

// TestTerminal: a frame keeps its lines, their order and their attributes.
func TestTerminal(t *testing.T) {
	frame := "\x1b[1mtitle\x1b[0m" + eraseLine + "\r\n" + eraseLine + "\r\n" + reverse + "HEAD  RATE  " + plain + eraseLine + "\r\r\nREAD  < 12" + plain + eraseLine
	d := terminal("x", "x", frame)
	if want := []string{"title", "HEAD  RATE", "READ  < 12"}; !slices.Equal(d.words, want) {
		t.Errorf("got %q, want %q", d.words, want)
	}
	svg := d.svg()
	for _, want := range []string{`class="m b f-ink"`, `class="m f-card"`, `>READ  &lt; 12</text>`} {
		if strings.Count(svg, want) != 1 {
			t.Errorf("got no %s in\n%s", want, svg)
		}
	}
	if len(d.faults) > 0 {
		t.Errorf("got faults %q", d.faults)
	}
	wellFormed(t, "top", svg)
}
