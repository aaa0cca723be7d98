// Command fscheck checks a mounted file system, in the guest.
//
//	fscheck -dir /mnt                     all checks, one line each
//	fscheck -dir /mnt -run 'mmap|sparse'  some of them
//	fscheck -dir /mnt -large 64           with large files of 64 MB
//	fscheck -dir /mnt -ops 20000 -seed 7  random operations against a model
//	fscheck -dir /mnt/many -names 20000   a directory that holds that many names
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"syscall"
	"time"

	"github.com/nfsrdma/nfsrdma/test/linux/fscheck"
)

var large int

func main() {
	dir := flag.String("dir", "", "the mounted `directory`")
	pattern := flag.String("run", "", "run the checks whose name matches the `regexp`")
	flag.IntVar(&large, "large", 16, "`megabytes` of the files that are to be large")
	ops := flag.Int("ops", 0, "random operations against a model, instead of the checks")
	seed := flag.Uint64("seed", 1, "seed of the random operations")
	names := flag.Int("names", 0, "count the names of the directory, instead of the checks")
	flag.Parse()
	// Modes are compared with the requested modes, so no umask may change them.
	syscall.Umask(0)
	ok := false
	switch {
	case *names > 0:
		ok = report("names", func() error { return fscheck.CountNames(*dir, *names) })
	case *ops > 0:
		ok = report("model", func() error { return fscheck.Model(fresh(*dir, "model"), *seed, *ops) })
	default:
		ok = all(*dir, regexp.MustCompile(*pattern))
	}
	if !ok {
		os.Exit(1)
	}
}

func all(dir string, pattern *regexp.Regexp) bool {
	ok := true
	for _, c := range fscheck.Checks {
		if pattern.MatchString(c.Name) {
			ok = report(c.Name, func() error {
				e := fresh(dir, c.Name)
				defer os.RemoveAll(e.Dir)
				return c.Run(e)
			}) && ok
		}
	}
	return ok
}

func report(name string, f func() error) bool {
	start := time.Now()
	err := f()
	if err != nil {
		fmt.Printf("FAIL %s %.1fs %v\n", name, time.Since(start).Seconds(), err)
		return false
	}
	fmt.Printf("ok %s %.1fs\n", name, time.Since(start).Seconds())
	return true
}

func fresh(dir, name string) fscheck.Env {
	e := fscheck.Env{Dir: filepath.Join(dir, "check-"+name), Root: os.Getuid() == 0, Large: large << 20, Forget: forget}
	if err := os.Mkdir(e.Dir, 0o777); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	return e
}

// forget makes the kernel write back and drop its caches.
func forget() error {
	syscall.Sync()
	return os.WriteFile("/proc/sys/vm/drop_caches", []byte("3"), 0)
}
