// Other libraries and this project take turns with the same trees and the same workloads.

// Package compare has benchmarks against go-nfs and go-nfs-client. docs/migrate.md has the figures.
//
//	TMPDIR=/dev/shm go test -run '^$' -bench . -benchtime 1x ./internal/compare
package compare

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// Sizes of the workloads.
const (
	listed      = 10_000 // entries of the directory to list
	packages    = 100    // directories of an installation
	files       = 20     // files in each
	fileSize    = 4 << 10
	streamSize  = 256 << 20
	streamBlock = 1 << 20
	rounds      = 5
)

// A contender does the workloads over the wire. Each function returns the time that its workload
// takes.
type contender struct {
	name    string
	list    func() time.Duration // lists the directory /many
	install func() time.Duration // creates, writes, closes and stats files
	read    func() time.Duration // reads the file /stream from start to end
}

// run makes two contenders take turns with each workload, and reports the medians and the range.
func run(b *testing.B, setting string, both [2]contender) {
	for _, w := range []struct {
		name string
		of   func(*contender) time.Duration
	}{
		{"list", func(c *contender) time.Duration { return c.list() }},
		{"install", func(c *contender) time.Duration { return c.install() }},
		{"read", func(c *contender) time.Duration { return c.read() }},
	} {
		b.Run(fmt.Sprintf("%s/%s", setting, w.name), func(b *testing.B) {
			for range b.N {
				var took [2][]time.Duration
				for range rounds {
					for i := range both {
						took[i] = append(took[i], w.of(&both[i]))
					}
				}
				for i := range both {
					slices.Sort(took[i])
					b.ReportMetric(took[i][rounds/2].Seconds()*1e3, both[i].name+"-ms")
					b.Logf("%s: median %v of %v", both[i].name, took[i][rounds/2], took[i])
				}
			}
		})
	}
}

// timed runs do and returns how long it takes.
func timed(b *testing.B, do func() error) time.Duration {
	begin := time.Now()
	if err := do(); err != nil {
		b.Fatal(err)
	}
	return time.Since(begin)
}

// eachFile calls mkdir for each directory of an installation, and then do with the path of each
// file in it.
func eachFile(top string, mkdir, do func(path string) error) error {
	if err := mkdir(top); err != nil {
		return err
	}
	for p := range packages {
		dir := fmt.Sprintf("%s/package%d", top, p)
		if err := mkdir(dir); err != nil {
			return err
		}
		for f := range files {
			if err := do(fmt.Sprintf("%s/file%d.js", dir, f)); err != nil {
				return err
			}
		}
	}
	return nil
}
