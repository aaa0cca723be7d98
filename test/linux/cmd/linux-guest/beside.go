// Performance compared with knfsd: one guest runs both servers, and only ratios are printed.

package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/nfsrdma/nfsrdma/test/linux/guest"
	"github.com/nfsrdma/nfsrdma/test/linux/image"
)

//go:embed beside.sh
var besideScript string

// besideRows are the rows of the table: a client, its test, and their titles.
var besideRows = []struct{ client, test, name, words string }{
	{"linux", "read", "Linux's", "READ of a file in order"},
	{"linux", "write", "Linux's", "WRITE of a file in order, fsync"},
	{"linux", "lookup", "Linux's", "LOOKUP, one at a time"},
	{"ours", "read", "`nfsrdma`", "READ of 1 MiB, 8 in flight"},
	{"ours", "write", "`nfsrdma`", "WRITE of 1 MiB and COMMIT, 8 in flight"},
	{"ours", "getattr", "`nfsrdma`", "GETATTR, 8 in flight"},
}

// A measurement is a client, a transport and a test.
type measurement struct{ client, transport, test string }

// beside measures rounds times, alternating the servers, and prints the medians of the ratios.
func beside(ctx context.Context, img *image.Image, rounds int) error {
	g, err := guest.Boot(ctx, guest.Config{Image: img, MemoryMB: 1024})
	if err != nil {
		return err
	}
	defer g.Close()
	build := exec.CommandContext(ctx, "go", "build", "-o", g.Share+"/", "./cmd/nfsrdma", "./cmd/nfsrdmad")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("go build, at the root of the source: %w\n%s", err, out)
	}
	if err := os.WriteFile(filepath.Join(g.Share, "beside.sh"), []byte(besideScript), 0o644); err != nil {
		return err
	}
	const functions = "cp /share/beside.sh /tmp/ && . /tmp/beside.sh && "
	if _, err := g.Run(ctx, functions+"setup"); err != nil {
		return err
	}
	ratios := map[measurement][]float64{}
	servers := []string{"knfsd", "nfsrdmad"}
	for i := range rounds {
		rates := map[string]map[measurement]float64{}
		for _, server := range servers {
			out, err := g.Run(ctx, functions+"turn "+server)
			if err == nil {
				rates[server], err = readRates(out)
			}
			if err != nil {
				return fmt.Errorf("round %d, %s: %w", i+1, server, err)
			}
			fmt.Fprintf(os.Stderr, "round %d of %d, %s: %d figures\n", i+1, rounds, server, len(rates[server]))
		}
		for m, rate := range rates["nfsrdmad"] {
			ratios[m] = append(ratios[m], rate/rates["knfsd"][m])
		}
		slices.Reverse(servers)
	}
	fmt.Printf("| nfsrdmad beside knfsd of Linux %s, in an emulated guest | client | TCP | RoCE (rxe) |\n|---|---|---|---|\n", img.Series)
	for _, r := range besideRows {
		fmt.Printf("| %s | %s | %s | %s |\n", r.words, r.name, spread(ratios[measurement{r.client, "tcp", r.test}]), spread(ratios[measurement{r.client, "rdma", r.test}]))
	}
	return nil
}

// spread formats the median of ratios, the smallest and the largest.
func spread(ratios []float64) string {
	slices.Sort(ratios)
	if len(ratios) == 0 {
		return "not measured"
	}
	return fmt.Sprintf("%.2f× (%.2f to %.2f)", ratios[len(ratios)/2], ratios[0], ratios[len(ratios)-1])
}

// readRates parses the rates printed by a turn.
func readRates(out string) (map[measurement]float64, error) {
	rates := map[measurement]float64{}
	for line := range strings.Lines(out) {
		client, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		transport, rest, _ := strings.Cut(rest, " ")
		switch client {
		case "linux":
			if err := readTimed(rates, transport, strings.Fields(rest)); err != nil {
				return nil, fmt.Errorf("%q: %w", line, err)
			}
		case "ours":
			var report struct {
				Tests []struct {
					Name   string  `json:"name"`
					PerSec float64 `json:"calls_per_s"`
				} `json:"tests"`
			}
			if err := json.Unmarshal([]byte(rest), &report); err != nil {
				return nil, fmt.Errorf("%q: %w", line, err)
			}
			for _, t := range report.Tests {
				rates[measurement{client, transport, t.Name}] = t.PerSec
			}
		}
	}
	for _, r := range besideRows {
		for _, transport := range []string{"tcp", "rdma"} {
			if rates[measurement{r.client, transport, r.test}] <= 0 {
				return nil, fmt.Errorf("no rate of %s, %s over %s, in:\n%s", r.test, r.client, transport, out)
			}
		}
	}
	return rates, nil
}

// readTimed parses a test, its amount, and its start and end time in seconds.
func readTimed(rates map[measurement]float64, transport string, words []string) error {
	if len(words) != 4 {
		return errors.New("want a test, an amount and two times")
	}
	var numbers [3]float64
	for i, w := range words[1:] {
		n, err := strconv.ParseFloat(w, 64)
		if err != nil {
			return err
		}
		numbers[i] = n
	}
	if numbers[2] <= numbers[1] {
		return errors.New("it took no time")
	}
	rates[measurement{"linux", transport, words[0]}] = numbers[0] / (numbers[2] - numbers[1])
	return nil
}
