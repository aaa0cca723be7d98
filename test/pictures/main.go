// Command pictures makes the pictures of the documents, in docs/img.
//
//	go run ./test/pictures             charts from docs/performance.md, and drawings from this code
//	go run ./test/pictures -screens    also nfsrdma top and the page of metrics, from running programs
//
// Run it at the root of the source. A test fails if charts or drawings are out of date.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
)

// figuresPage has the tables for the charts.
const figuresPage = "docs/performance.md"

// folder has the pictures, relative to the root.
const folder = "docs/img"

func main() {
	screens := flag.Bool("screens", false, "also take screens of programs: needs chromium-headless-shell")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := makeAll(ctx, *screens); err != nil {
		fmt.Fprintln(os.Stderr, "pictures:", err)
		os.Exit(1)
	}
}

func makeAll(ctx context.Context, screens bool) error {
	all, err := drawings(".")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for _, d := range all {
		if err := os.WriteFile(filepath.Join(folder, d.name+".svg"), []byte(d.svg()), 0o644); err != nil {
			return err
		}
	}
	if screens {
		return takeScreens(ctx)
	}
	return nil
}

// drawings returns all pictures that need no running program, in document order.
func drawings(root string) ([]*drawing, error) {
	page, err := os.ReadFile(filepath.Join(root, figuresPage))
	if err != nil {
		return nil, err
	}
	f := figures{tables: readTables(string(page))}
	all := append(charts(&f), ladders()...)
	panels, err := dashboard(root)
	if err != nil {
		return nil, err
	}
	all = append(all, layers(), transports(), failover(), trust(), panels)
	if f.err != nil {
		return nil, fmt.Errorf("%s: %w", figuresPage, f.err)
	}
	return all, nil
}
