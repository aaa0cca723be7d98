// The progress bar of a copy; shown on a terminal only.

package main

import (
	"io"
	"os"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"
)

// progressEvery is how often the bar looks at the counters.
const progressEvery = 100 * time.Millisecond

// showProgress draws the copier's counters on w until the returned function is
// called. It does nothing when w is not a terminal.
func showProgress(w io.Writer, c *copier) (stop func()) {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return func() {}
	}
	p := mpb.New(mpb.WithOutput(w), mpb.WithRefreshRate(progressEvery))
	bar := p.AddBar(0,
		mpb.PrependDecorators(decor.Any(func(decor.Statistics) string {
			return plural(c.files.Load()+c.links.Load(), "file") + "  "
		}), decor.CountersKibiByte("% .1f / % .1f")),
		mpb.AppendDecorators(decor.Percentage(), decor.Name("  "), decor.AverageSpeed(decor.SizeB1024(0), "% .1f")),
	)
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(progressEvery)
		defer tick.Stop()
		for {
			bar.SetTotal(max(c.total.Load(), 1), false)
			bar.SetCurrent(c.bytes.Load())
			select {
			case <-tick.C:
			case <-quit:
				bar.SetCurrent(c.bytes.Load())
				bar.SetTotal(c.bytes.Load(), true)
				return
			}
		}
	}()
	return func() {
		close(quit)
		<-done
		p.Wait()
	}
}
