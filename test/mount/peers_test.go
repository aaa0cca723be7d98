// Other projects' servers under our mounts, and the conditions on their exports.

package mount

import (
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/several"
)

// A peer is a server that is not ours.
type peer struct {
	name    string   // testdata/NAME.txt has the POSIX cases where it differs
	host    string   // its address
	export  string   // the mounted export
	options string   // how it is reached
	by      []string // the command prefix for the mount, where the peer has its own network
	model   []string // further arguments of the model
	slow    bool     // it runs on an emulated machine
	unknown bool     // its port mapper cannot be reached, so its lock manager is not found
}

// mount mounts the peer's export.
func (p peer) mount(t *testing.T, more ...string) string {
	t.Helper()
	return mountAs(t, p.by, p.host, p.options, p.export, more...)
}

// count returns a count of operations: scaled, and few of them on a peer that is slow.
func (p peer) count(few, many int) int {
	if p.slow {
		return few / 3
	}
	return scaled(few, many)
}

// check uses mounts of the peer's export as programs do.
func (p peer) check(t *testing.T) {
	t.Run("posix", func(t *testing.T) {
		dir := p.mount(t)
		mustWork(t, "posix", inside(t, dir, "posix-"+filepath.Base(dir)), filepath.Join("testdata", p.name+".txt"))
	})
	t.Run("model", func(t *testing.T) {
		dir, local := p.mount(t), tempDir(t, "local")
		name := "model-" + filepath.Base(dir)
		args := []string{seed(t), strconv.Itoa(p.count(300, 100_000)), inside(t, dir, name), local}
		mustWork(t, "model", append(args, p.model...)...)
		mustWork(t, "same", filepath.Join(p.mount(t), name), local)
	})
	t.Run("bytes", func(t *testing.T) {
		dir := p.mount(t)
		for _, how := range []string{"buffered", "mmap", "direct", "sync"} {
			mustWork(t, "bytes", seed(t), strconv.Itoa(p.count(60, 20_000)), how, filepath.Join(dir, "bytes-"+how+filepath.Base(dir)))
		}
	})
	t.Run("close-to-open", func(t *testing.T) {
		a, b := p.mount(t), p.mount(t)
		script(t, a, "touch f0 f1 f2")
		mustWork(t, "cto", a, b, strconv.Itoa(p.count(40, 10_000)), seed(t))
	})
	if !p.unknown {
		t.Run("locks", p.locks)
	}
	t.Run("several", func(t *testing.T) { severalOn(t, p.several(t), p.count(1500, 100_000)) })
	if p.slow && !full {
		return
	}
	t.Run("appenders", func(t *testing.T) {
		dir := p.mount(t)
		appenders(t, filepath.Join(dir, "log-"+filepath.Base(dir)), scaled(3, 1000))
	})
	t.Run("programs", func(t *testing.T) {
		dir := p.mount(t)
		for _, s := range scripts {
			if full || s.name == "tar" || s.name == "git" && !thin {
				t.Run(s.name, func(t *testing.T) {
					empty := inside(t, dir, s.name+"-"+filepath.Base(dir))
					s.run(t, empty)
					// a guest's export is a few hundred MB of its memory
					script(t, dir, "rm -r "+empty)
				})
			}
		}
	})
}

// several returns a world with two mounts, and one with noac.
func (p peer) several(t *testing.T) *several.World {
	t.Helper()
	w := newSeveral(t)
	for range 2 {
		w.process(several.Kind{Name: "a mount", Unasked: true, NoLocks: p.unknown}, p.mount(t, "lookupcache=pos,noacl"))
	}
	noac := p.mount(t, "noac,noacl")
	w.process(several.Kind{Name: "a mount with noac", NoCache: true, Unasked: true, NoLocks: p.unknown}, noac)
	w.tick(filepath.Join(noac, "tick-"+filepath.Base(noac))) // the peer may have its own clock
	return w.World
}

// appenders makes sixty-four programs append count lines each to one file, and checks the file.
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
