// The progress bar of a copy, on terminals only.

package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/text"
	"github.com/nfsrdma/nfsrdma/cmd/internal/treecopy"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"
)

// progressEvery is the refresh interval.
const progressEvery = 100 * time.Millisecond

// showProgress draws the run's counters on w until the returned function is called. It does nothing
// if w is not a terminal. The bytes include holes, which cost nothing to copy.
func showProgress(w io.Writer, c *treecopy.Run) (shown bool, stop func()) {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return false, func() {}
	}
	p := mpb.New(mpb.WithOutput(w), mpb.WithRefreshRate(progressEvery))
	bar := p.AddBar(0,
		mpb.PrependDecorators(decor.Any(func(decor.Statistics) string {
			return text.Plural(c.Files.Load()+c.Links.Load()+c.Specials.Load(), "file") + "  "
		}), decor.CountersKibiByte("% .1f / % .1f")),
		mpb.AppendDecorators(decor.Percentage(), decor.Name("  "), decor.AverageSpeed(decor.SizeB1024(0), "% .1f")),
	)
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(progressEvery)
		defer tick.Stop()
		for {
			done := c.Bytes.Load()
			// files grow, and streams have no size
			bar.SetTotal(max(c.Total.Load(), done, 1), false)
			bar.SetCurrent(done)
			select {
			case <-tick.C:
			case <-quit:
				bar.SetCurrent(c.Bytes.Load())
				bar.SetTotal(c.Bytes.Load(), true)
				return
			}
		}
	}()
	return true, func() {
		close(quit)
		<-done
		p.Wait()
	}
}

// summary writes the last line of a copy.
func summary(w io.Writer, c *treecopy.Run, d time.Duration) {
	n := c.Bytes.Load()
	list := []string{text.Plural(c.Files.Load(), "file"), text.Plural(c.Links.Load(), "link"), pluralDirs(c.Dirs.Load())}
	if special := c.Specials.Load(); special > 0 {
		list = append(list, text.Plural(special, "special file"))
	}
	fmt.Fprintf(w, "%s, %s in %.2fs (%s/s)\n", strings.Join(list, ", "), text.Size(uint64(n)), d.Seconds(),
		text.Size(uint64(float64(n)/d.Seconds())))
}

func pluralDirs(n int64) string {
	if n == 1 {
		return "1 directory"
	}
	return fmt.Sprintf("%d directories", n)
}
