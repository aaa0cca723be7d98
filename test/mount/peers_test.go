// Servers of others as what is mounted, and what must hold on their exports.

package mount

import (
	"path/filepath"
	"strconv"
	"sync"
	"testing"
)

// A peer is a server that is not ours.
type peer struct {
	name    string   // testdata/NAME.txt has the cases of POSIX in which it differs
	export  string   // what is mounted
	options string   // how it is reached
	by      []string // what runs the mount, where the peer is in a network of its own
	model   []string // further arguments of the model
}

// mount mounts the peer's export.
func (p peer) mount(t *testing.T, more ...string) string {
	t.Helper()
	return mountAs(t, p.by, p.options, p.export, more...)
}

// check uses mounts of the peer's export as programs do.
func (p peer) check(t *testing.T) {
	t.Run("posix", func(t *testing.T) {
		dir := inside(t, p.mount(t), "posix")
		mustWork(t, "posix", dir, filepath.Join("testdata", p.name+".txt"))
	})
	t.Run("model", func(t *testing.T) {
		dir, local := p.mount(t), tempDir(t, "local")
		args := []string{seed(t), strconv.Itoa(scaled(300, 100_000)), inside(t, dir, "model"), local}
		mustWork(t, "model", append(args, p.model...)...)
		mustWork(t, "same", filepath.Join(p.mount(t), "model"), local)
	})
	t.Run("bytes", func(t *testing.T) {
		dir := p.mount(t)
		for _, how := range []string{"buffered", "mmap", "direct", "sync"} {
			mustWork(t, "bytes", seed(t), strconv.Itoa(scaled(60, 20_000)), how, filepath.Join(dir, "bytes-"+how))
		}
	})
	t.Run("close-to-open", func(t *testing.T) {
		a, b := p.mount(t), p.mount(t)
		script(t, a, "touch f0 f1 f2")
		mustWork(t, "cto", a, b, strconv.Itoa(scaled(40, 10_000)), seed(t))
	})
	t.Run("appenders", func(t *testing.T) { appenders(t, filepath.Join(p.mount(t), "log"), scaled(3, 1000)) })
	t.Run("programs", func(t *testing.T) {
		dir := p.mount(t)
		for _, s := range scripts {
			if full || s.name == "tar" || s.name == "git" && !thin {
				t.Run(s.name, func(t *testing.T) { s.run(t, inside(t, dir, s.name)) })
			}
		}
	})
}

// appenders has sixty-four programs append count lines each to one file.
func appenders(t *testing.T, file string, count int) {
	t.Helper()
	const ids = 64
	var wg sync.WaitGroup
	for id := range ids {
		wg.Go(func() { mustWork(t, "append", file, strconv.Itoa(id), strconv.Itoa(count)) })
	}
	wg.Wait()
	mustWork(t, "appended", file, strconv.Itoa(ids), strconv.Itoa(count))
}
