// The model: one sequence of random operations on two directories at once, whose results must be
// the same at every step.

package mount

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A modelSide is one of the two directories, with the files that are open in it.
type modelSide struct {
	dir   string
	files map[int]*os.File
}

// A model runs the same operations on both sides.
type model struct {
	rnd    *rand.Rand
	sides  [2]*modelSide
	open   []int        // descriptors, by number, in both sides
	orphan map[int]bool // those whose name is gone
	names  map[int]string
	next   int
	trace  []string

	noLinkTimes bool // a server ignores the times of symbolic links
}

// modelWorker runs COUNT operations with SEED on two directories; the second is local: SEED COUNT
// DIR DIR [no-link-times].
func modelWorker(args []string) error {
	seed, _ := strconv.ParseUint(args[0], 10, 64)
	count, _ := strconv.Atoi(args[1])
	unix.Umask(0o022)
	m := &model{rnd: rand.New(rand.NewPCG(seed, 1)), orphan: make(map[int]bool), names: make(map[int]string)}
	m.noLinkTimes = len(args) > 4 && args[4] == "no-link-times"
	for i := range m.sides {
		m.sides[i] = &modelSide{dir: args[2+i], files: make(map[int]*os.File)}
	}
	for i := range count {
		if err := m.step(); err != nil {
			return fmt.Errorf("operation %d of seed %d: %w\nbefore:\n%s", i, seed, err, strings.Join(m.trace, "\n"))
		}
	}
	for len(m.open) > 0 {
		m.close(0)
	}
	return sameTrees(m.sides[0].dir, m.sides[1].dir)
}

// pick returns a random path: few names in few directories, so that operations meet.
func (m *model) pick() string {
	dirs := []string{"", "", "a/", "b/", "a/c/", "a/c/d/"}
	return dirs[m.rnd.IntN(len(dirs))] + string(rune('a'+m.rnd.IntN(10)))
}

// both runs an operation on both sides, and compares the results.
func (m *model) both(what string, op func(s *modelSide) string) error {
	m.trace = append(m.trace, what)
	if len(m.trace) > 25 {
		m.trace = m.trace[1:]
	}
	first, second := op(m.sides[0]), op(m.sides[1])
	if first != second {
		return fmt.Errorf("%s: %s in %s, %s in %s", what, first, m.sides[0].dir, second, m.sides[1].dir)
	}
	return nil
}

// call runs an operation whose only result is an error on both sides, and compares the errors.
func (m *model) call(what string, op func(s *modelSide) error) error {
	return m.both(what, func(s *modelSide) string { return errName(op(s)) })
}

// step does one operation.
func (m *model) step() error {
	p := m.pick()
	switch n := m.rnd.IntN(100); {
	case n < 14:
		return m.writeFile(p)
	case n < 26:
		return m.both("read "+p, func(s *modelSide) string {
			b, err := os.ReadFile(s.path(p))
			return fmt.Sprintf("%s %d %x", errName(err), len(b), sha256.Sum256(b))
		})
	case n < 34:
		return m.both("stat "+p, func(s *modelSide) string { return describe(s.path(p), false) })
	case n < 52:
		return m.descriptor(p)
	case n < 60:
		return m.both("list "+filepath.Dir(p), func(s *modelSide) string { return listing(s.path(filepath.Dir(p))) })
	default:
		return m.name(p, n-60)
	}
}

// name does one of the operations on names; n is 0 to 39.
func (m *model) name(p string, n int) error {
	q := m.pick()
	switch {
	case n < 6:
		m.settle()
		return m.call("mkdir "+p, func(s *modelSide) error { return unix.Mkdir(s.path(p), 0o755) })
	case n < 10:
		m.settle()
		return m.call("rmdir "+p, func(s *modelSide) error { return unix.Rmdir(s.path(p)) })
	case n < 15:
		m.lose(p)
		return m.call("unlink "+p, func(s *modelSide) error { return unix.Unlink(s.path(p)) })
	case n < 22:
		m.lose(q)
		m.settle()
		return m.call("rename "+p+" "+q, func(s *modelSide) error { return unix.Rename(s.path(p), s.path(q)) })
	case n < 25:
		return m.call("link "+p+" "+q, func(s *modelSide) error { return unix.Link(s.path(p), s.path(q)) })
	case n < 28:
		return m.call("symlink "+q+" "+p, func(s *modelSide) error { return unix.Symlink(filepath.Base(q), s.path(p)) })
	case n < 31:
		mode := uint32(m.rnd.IntN(0o1000)) | 0o600
		return m.call(fmt.Sprintf("chmod %o %s", mode, p), func(s *modelSide) error { return unix.Chmod(s.path(p), mode|dirSearch(s.path(p))) })
	case n < 34:
		size := m.size()
		return m.call(fmt.Sprintf("truncate %d %s", size, p), func(s *modelSide) error { return unix.Truncate(s.path(p), size) })
	case n < 37:
		if m.noLinkTimes && m.sides[1].isLink(p) {
			return nil
		}
		t := unix.Timespec{Sec: m.rnd.Int64N(1 << 31), Nsec: m.rnd.Int64N(1e9)}
		return m.both("utimens "+p, func(s *modelSide) string {
			err := unix.UtimesNanoAt(unix.AT_FDCWD, s.path(p), []unix.Timespec{t, t}, unix.AT_SYMLINK_NOFOLLOW)
			return errName(err) + describe(s.path(p), err == nil)
		})
	default:
		return m.both("readlink "+p, func(s *modelSide) string {
			to, err := os.Readlink(s.path(p))
			return to + " " + errName(err)
		})
	}
}

func (s *modelSide) path(p string) string { return filepath.Join(s.dir, p) }

// isLink reports whether a path is a symbolic link.
func (s *modelSide) isLink(p string) bool {
	var st unix.Stat_t
	return unix.Lstat(s.path(p), &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK
}

// dirSearch returns the mode bits that keep a directory open to its owner, and 0 for other objects.
func dirSearch(p string) uint32 {
	if st, err := os.Stat(p); err == nil && st.IsDir() {
		return 0o700
	}
	return 0
}

// size returns the size of a file: mostly small, sometimes more than one request of the kernel.
func (m *model) size() int64 {
	if m.rnd.IntN(20) == 0 {
		return m.rnd.Int64N(3 << 20)
	}
	return m.rnd.Int64N(20000)
}

// data returns random bytes, the same for both sides.
func (m *model) data() []byte {
	b := make([]byte, m.size())
	seed := m.rnd.Uint64()
	for i := range b {
		b[i] = byte(seed >> (i % 8 * 8))
		if i%8 == 7 {
			seed = seed*6364136223846793005 + 1442695040888963407
		}
	}
	return b
}

func (m *model) writeFile(p string) error {
	b, off := m.data(), m.size()
	how := []int{unix.O_CREAT | unix.O_TRUNC, unix.O_CREAT, unix.O_CREAT | unix.O_EXCL, unix.O_APPEND, unix.O_CREAT | unix.O_APPEND, 0}[m.rnd.IntN(6)]
	return m.both(fmt.Sprintf("write %s flags %#x, %d at %d", p, how, len(b), off), func(s *modelSide) string {
		f, err := os.OpenFile(s.path(p), how|os.O_WRONLY, 0o644)
		if err != nil {
			return errName(err)
		}
		if how&unix.O_APPEND != 0 {
			_, err = f.Write(b)
		} else {
			_, err = f.WriteAt(b, off)
		}
		return errName(err) + " " + errName(f.Close())
	})
}

// describe returns the part of stat(2) for a path that must be the same on both sides.
func describe(p string, times bool) string {
	var st unix.Stat_t
	if err := unix.Lstat(p, &st); err != nil {
		return errName(err)
	}
	s := fmt.Sprintf("%o nlink %d uid %d gid %d", st.Mode, st.Nlink, st.Uid, st.Gid)
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		s += fmt.Sprintf(" size %d", st.Size)
	}
	if times {
		s += fmt.Sprintf(" mtime %v", st.Mtim)
	}
	return s
}

// listing returns a directory's names, except those of files that were removed while open.
func listing(dir string) string {
	names, err := readNames(dir)
	var kept []string
	for _, name := range names {
		if !strings.HasPrefix(name, ".nfs") {
			kept = append(kept, name)
		}
	}
	return strings.Join(kept, " ") + " " + errName(err)
}

// sameTrees compares names, attributes, and contents in two trees. The hidden names of files that
// were removed while open go after the last close has returned, so those in the first tree are
// waited for.
func sameTrees(a, b string) error {
	x, err := readTree(a)
	for end := time.Now().Add(time.Minute); err == nil && hasHidden(x) && time.Now().Before(end); x, err = readTree(a) {
		time.Sleep(50 * time.Millisecond)
	}
	if err != nil {
		return err
	}
	y, err := readTree(b)
	if err != nil {
		return err
	}
	for name, what := range x {
		if y[name] != what {
			return fmt.Errorf("%s: %s in %s, %q in %s", name, what, a, y[name], b)
		}
	}
	for name := range y {
		if _, ok := x[name]; !ok {
			return fmt.Errorf("%s: in %s only", name, b)
		}
	}
	fmt.Printf("%d entries are the same\n", len(x))
	return nil
}

// hasHidden reports whether a tree has the name of a file that was removed while open.
func hasHidden(tree map[string]string) bool {
	for name := range tree {
		if strings.HasPrefix(base(name), ".nfs") {
			return true
		}
	}
	return false
}

// readTree describes each entry of a tree.
func readTree(dir string) (map[string]string, error) {
	tree := make(map[string]string)
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == dir {
			return err
		}
		what := describe(p, false)
		if d.Type() == 0 {
			b, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			what += fmt.Sprintf(" %x", sha256.Sum256(b))
		}
		if d.Type() == fs.ModeSymlink {
			to, _ := os.Readlink(p)
			what += " " + to
		}
		tree[strings.TrimPrefix(p, dir)] = what
		return nil
	})
	return tree, err
}
