// Mounts while the object storage is away, full, or answers with errors.

package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsserver/juicefs/juicefstest"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// outage returns how long the object storage is away: a minute with NFSRDMA_FULL=1.
func outage() time.Duration {
	if os.Getenv("NFSRDMA_FULL") != "" {
		return time.Minute
	}
	return 10 * time.Second
}

// namesWorker makes, renames, lists and removes a file in each step, and prints the step's number.
// Argument: DIR.
func namesWorker(args []string, lines *bufio.Scanner) error {
	for i := 0; lines.Scan(); i++ {
		from, to := filepath.Join(args[0], fmt.Sprint("made-", i)), filepath.Join(args[0], fmt.Sprint("moved-", i))
		f, err := os.Create(from)
		if err == nil {
			err = errors.Join(f.Close(), os.Rename(from, to))
		}
		if err == nil {
			err = os.Chmod(to, 0o600)
		}
		list, lerr := os.ReadDir(args[0])
		if err = errors.Join(err, lerr, os.Remove(to)); err != nil {
			return err
		}
		if len(list) == 0 {
			return errors.New("nothing is listed")
		}
		fmt.Println(i)
	}
	return nil
}

// readWorker reads a file and prints the number of bytes read. Argument: FILE.
func readWorker(args []string, lines *bufio.Scanner) error {
	for lines.Scan() {
		b, err := os.ReadFile(args[0])
		if err != nil {
			return err
		}
		fmt.Println(len(b))
	}
	return nil
}

const storeSize = 256 << 10

// storeWorker rewrites and syncs a file and prints the result. Argument: FILE.
func storeWorker(args []string, lines *bufio.Scanner) error {
	for i := 0; lines.Scan(); i++ {
		f, err := os.Create(args[0])
		if err != nil {
			return err
		}
		_, err = f.Write(bytes.Repeat([]byte{byte('a' + i)}, storeSize))
		if err == nil {
			err = f.Sync()
		}
		if cerr := f.Close(); err == nil {
			err = cerr
		}
		switch {
		case err == nil:
			fmt.Println("stored")
		case errors.Is(err, syscall.ENOSPC):
			fmt.Println("ENOSPC")
		case errors.Is(err, syscall.EIO):
			fmt.Println("EIO")
		default:
			return err
		}
	}
	return nil
}

// TestObjectStorageAwayFromMounts: the object storage closes connections, so the server soon stops
// retrying, or it does not respond. Meanwhile fsync and reads of uncached data wait, while names
// and cached contents work. After the storage's return everything works, whether or not a server
// was killed meanwhile, and no acknowledged data is missing.
func TestObjectStorageAwayFromMounts(t *testing.T) {
	release := make(chan struct{})
	for _, way := range []struct {
		name  string
		fault juicefstest.Fault
		flags []string
		kill  bool
	}{{"resets", juicefstest.Away, []string{"--io-retries", "1"}, false}, {"hangs", juicefstest.Hung(release), nil, true}} {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, way.flags...)
			c.mount("timeo=100", 0, 1)
			c.mount("timeo=100", 1, 0)
			const n = recordPlaces
			w := startWorker(t, "records", filepath.Join(c.mounts[0], "records"))
			w.do(n)
			w.await(n)
			c.file("cached", "content\n")
			cached := startWorker(t, "read", filepath.Join(c.mounts[1], "cached"))
			cached.do(1)
			cached.await(1)
			names := startWorker(t, "names", c.mounts[1])
			remote := startWorker(t, "read", filepath.Join(c.mounts[1], "records"))

			c.s3.Break(way.fault)
			w.do(1)
			remote.do(1) // server 1 has not read this file before
			names.do(20)
			names.await(20)
			cached.do(20)
			cached.await(21)
			if way.kill {
				c.servers[0].kill()
			}
			time.Sleep(outage()) // no measurement: only the time that the storage is away
			if w.has(n+1) || remote.has(1) {
				t.Errorf("without the object storage: %q, %q", w.results(), remote.results())
			}
			names.do(1)
			names.await(21)
			if way.kill {
				close(release)
			}
			c.s3.Mend()
			w.do(n)
			w.await(2*n + 1)
			remote.await(1)
			if way.kill {
				c.servers[0].start()
			}
			for _, s := range c.servers {
				c.atServer(s, "records", 2*n+1)
			}
			mustRun(t, "written", filepath.Join(c.mounts[1], "records"), strconv.Itoa(2*n+1))
			for _, one := range []*worker{w, remote, names, cached} {
				one.end()
			}
		})
	}
}

// told checks the last of n results of a worker, after waiting for it.
func told(t *testing.T, w *worker, n int, want string) {
	t.Helper()
	w.await(n)
	if got := w.results()[n-1]; got != want {
		t.Errorf("%s: result %d is %s, want %s", w.name, n, got, want)
	}
}

// TestObjectStorageRefusesMounts: an object-storage error reaches the syncing program once; later
// data is stored.
func TestObjectStorageRefusesMounts(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "--io-retries", "2")
	c.mount("timeo=100", 0)
	w := startWorker(t, "store", filepath.Join(c.mounts[0], "file"))
	names := startWorker(t, "names", c.mounts[0])
	n := 0
	for i, refusal := range []struct {
		status int
		code   string
		want   string
	}{
		{http.StatusInternalServerError, "InternalError", "EIO"},
		{http.StatusForbidden, "AccessDenied", "EIO"},
		{http.StatusInsufficientStorage, "XMinioStorageFull", "ENOSPC"},
	} {
		c.s3.Break(juicefstest.Answer("PUT", refusal.status, refusal.code))
		w.do(1)
		names.do(1)
		names.await(i + 1)
		n++
		told(t, w, n, refusal.want)
		c.s3.Mend()
		w.do(1)
		n++
		told(t, w, n, "stored")
	}
	w.end()
	names.end()
}

// TestObjectStorageFull: the object storage's disk is full. The syncing program gets the error,
// names work, and with space again everything does.
func TestObjectStorageFull(t *testing.T) {
	t.Parallel()
	needMounts(t)
	disk := t.TempDir()
	must.Succeed(t, syscall.Mount("none", disk, "tmpfs", 0, "size=8m"))
	t.Cleanup(func() { _ = syscall.Unmount(disk, syscall.MNT_DETACH) })
	c := newServersOn(t, juicefstest.Redis, juicefstest.StartS3In(t, disk), "--io-retries", "2")
	c.mount("timeo=100", 0)
	w := startWorker(t, "store", filepath.Join(c.mounts[0], "file"))
	w.do(1)
	told(t, w, 1, "stored")
	if err := os.WriteFile(filepath.Join(disk, "filler"), make([]byte, 16<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}
	w.do(1)
	names := startWorker(t, "names", c.mounts[0])
	names.do(1)
	names.await(1)
	w.await(2)
	t.Logf("told %s", w.results()[1])
	told(t, w, 2, "ENOSPC")
	must.Succeed(t, os.Remove(filepath.Join(disk, "filler")))
	w.do(1)
	told(t, w, 3, "stored")
	w.end()
	names.end()
}
