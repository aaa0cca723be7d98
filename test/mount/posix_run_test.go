// Running the cases from testdata/posix.txt in any directory: statements that must work, the tested
// one, and its required effects.

package mount

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A posixCase is one line: NAME: statement; statement -> OUTCOME; check; check.
type posixCase struct {
	name    string
	setup   [][]string // statements that must work
	last    []string   // the tested statement
	outcome string     // OK, or an errno
	checks  [][]string
}

// readPosixCases reads the file; lines that begin with # are comments.
func readPosixCases() ([]posixCase, error) {
	b, err := os.ReadFile(filepath.Join("testdata", "posix.txt"))
	if err != nil {
		return nil, err
	}
	var list []posixCase
	seen := make(map[string]bool)
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		c, err := parsePosixCase(line)
		if err != nil || seen[c.name] {
			return nil, fmt.Errorf("%s: %v, or twice", line, err)
		}
		seen[c.name] = true
		list = append(list, c)
	}
	return list, nil
}

func parsePosixCase(line string) (c posixCase, err error) {
	name, rest, ok := strings.Cut(line, ": ")
	do, after, ok2 := strings.Cut(rest, " -> ")
	if !ok || !ok2 {
		return c, fmt.Errorf("no name, or no outcome")
	}
	c.name = name
	for s := range strings.SplitSeq(do, ";") {
		words := strings.Fields(s)
		st, ok := statements[words[0]]
		if !ok || len(words)-1 < st.least || len(words)-1 > st.most {
			return c, fmt.Errorf("statement %q", s)
		}
		c.setup = append(c.setup, words)
	}
	n := len(c.setup) - 1
	c.setup, c.last = c.setup[:n], c.setup[n]
	outcome, checks, _ := strings.Cut(after, ";")
	c.outcome = strings.TrimSpace(outcome)
	for s := range strings.SplitSeq(checks, ";") {
		if words := strings.Fields(s); len(words) > 0 {
			c.checks = append(c.checks, words)
		}
	}
	return c, nil
}

// readDifferences reads the cases that do not hold on a server, with the reasons: NAME: WHY.
func readDifferences(file string) (map[string]string, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	list := make(map[string]string)
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		name, why, _ := strings.Cut(line, ": ")
		if why == "" || list[name] != "" {
			return nil, fmt.Errorf("%s: no reason, or twice", line)
		}
		list[name] = why
	}
	return list, nil
}

// posixWorker runs the cases below a directory, and writes a line for each that does not hold: DIR
// [DIFFERENCES]. A case in DIFFERENCES must not hold.
func posixWorker(args []string) error {
	cases, err := readPosixCases()
	if err != nil {
		return err
	}
	var differ map[string]string
	if len(args) > 1 {
		if differ, err = readDifferences(args[1]); err != nil {
			return err
		}
	}
	if err := unix.Setgroups(nil); err != nil {
		return err
	}
	unix.Umask(0)
	runtime.LockOSThread()
	failed := 0
	for i, c := range cases {
		dir := filepath.Join(args[0], strconv.Itoa(i))
		if err := os.Mkdir(dir, 0o777); err != nil {
			return err
		}
		// The directory stays root's: a case that needs another owner makes its own directory.
		wrong, why := c.run(dir), differ[c.name]
		if why != "" && wrong == "" {
			wrong = "holds after all, though " + why
		} else if why != "" {
			wrong = ""
		}
		delete(differ, c.name)
		if wrong != "" {
			failed++
			fmt.Printf("%s: %s\n", c.name, wrong)
		}
		_ = become("root")
		if err := os.RemoveAll(dir); err != nil {
			failed++
			fmt.Printf("%s: removing what it left: %v\n", c.name, err)
		}
	}
	for name := range differ {
		failed++
		fmt.Printf("%s: there is no such case\n", name)
	}
	fmt.Printf("%d cases\n", len(cases))
	if failed > 0 {
		return fmt.Errorf("%d of %d cases", failed, len(cases))
	}
	return nil
}

// run runs one case, and returns its faults.
func (c *posixCase) run(dir string) string {
	r := &posixRun{dir: dir}
	for _, s := range c.setup {
		if err := statements[s[0]].do(r, s[1:]); err != nil {
			return fmt.Sprintf("setup %q: %s", s, errName(err))
		}
	}
	before := make(map[string]unix.Stat_t)
	for _, k := range c.checks {
		if strings.HasPrefix(k[0], "ctime") || strings.HasPrefix(k[0], "mtime") {
			var st unix.Stat_t
			if err := unix.Lstat(r.path(k[1]), &st); err != nil {
				return fmt.Sprintf("%q before: %s", k, errName(err))
			}
			before[k[1]] = st
		}
	}
	if len(before) > 0 {
		time.Sleep(15 * time.Millisecond) // the clock of file times ticks in between
	}
	err := statements[c.last[0]].do(r, c.last[1:])
	if got := errName(err); got != c.outcome {
		return fmt.Sprintf("%q: %s, want %s", c.last, got, c.outcome)
	}
	_ = become("root")
	for _, k := range c.checks {
		if wrong := r.check(k, before); wrong != "" {
			return fmt.Sprintf("%q: %s", k, wrong)
		}
	}
	return ""
}

// check checks one thing about a path: WHAT PATH [VALUE].
func (r *posixRun) check(k []string, before map[string]unix.Stat_t) string {
	var st unix.Stat_t
	err := unix.Lstat(r.path(k[1]), &st)
	if k[0] == "absent" {
		if err != unix.ENOENT {
			return "it is there: " + errName(err)
		}
		return ""
	}
	if err != nil {
		return errName(err)
	}
	old := before[k[1]]
	bad := func(got any) string { return fmt.Sprintf("it is %v", got) }
	switch k[0] {
	case "mode":
		if st.Mode&0o7777 != mode(k, 2, 0) {
			return bad(fmt.Sprintf("%o", st.Mode&0o7777))
		}
	case "type":
		kinds := map[string]uint32{"fifo": unix.S_IFIFO, "sock": unix.S_IFSOCK, "chr": unix.S_IFCHR, "blk": unix.S_IFBLK, "reg": unix.S_IFREG, "dir": unix.S_IFDIR, "lnk": unix.S_IFLNK}
		if st.Mode&unix.S_IFMT != kinds[k[2]] {
			return bad(fmt.Sprintf("%o", st.Mode))
		}
	case "rdev":
		if st.Rdev != unix.Mkdev(1, 3) {
			return bad(st.Rdev)
		}
	case "uid":
		if int(st.Uid) != number(k[2]) {
			return bad(st.Uid)
		}
	case "gid":
		if int(st.Gid) != number(k[2]) {
			return bad(st.Gid)
		}
	case "nlink":
		if int(st.Nlink) != number(k[2]) {
			return bad(st.Nlink)
		}
	case "size":
		if st.Size != int64(number(k[2])) {
			return bad(st.Size)
		}
	case "times":
		got := fmt.Sprintf("%d.%09d,%d.%09d", st.Atim.Sec, st.Atim.Nsec, st.Mtim.Sec, st.Mtim.Nsec)
		if got != k[2] {
			return bad(got)
		}
	case "ctime+", "ctime=":
		if (st.Ctim != old.Ctim) != (k[0] == "ctime+") {
			return fmt.Sprintf("%v, before %v", st.Ctim, old.Ctim)
		}
	case "mtime+", "mtime=":
		if (st.Mtim != old.Mtim) != (k[0] == "mtime+") {
			return fmt.Sprintf("%v, before %v", st.Mtim, old.Mtim)
		}
	case "content":
		b, err := os.ReadFile(r.path(k[1]))
		if err != nil || string(b) != k[2] {
			return fmt.Sprintf("%q, %v", b, err)
		}
	default:
		panic("no such check: " + k[0])
	}
	return ""
}

// readNames returns the names of a directory, sorted.
func readNames(dir string) ([]string, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	slices.Sort(names)
	return names, err
}
