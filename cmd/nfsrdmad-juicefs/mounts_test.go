// Mounts of several servers by nfsrdma, and the programs that use them.

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsserver/juicefs/juicefstest"
	"github.com/nfsrdma/nfsrdma/test/machine"
)

// builtClient returns the directory with the program nfsrdma, built once for all tests.
var builtClient = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "nfsrdma-")
	if err != nil {
		return "", err
	}
	clientDir = dir
	cmd := exec.Command("go", "build", "-o", dir+"/", "./cmd/nfsrdma")
	cmd.Dir = filepath.Join("..", "..")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("nfsrdma: %w\n%s", err, out)
	}
	return dir, nil
})

// clientDir is builtClient's directory, to be removed after the tests.
var clientDir string

// A cluster is a volume on services, with its servers, and with mounts of these servers.
type cluster struct {
	t       *testing.T
	meta    *juicefstest.Process
	url     string // the volume's URL
	s3      *juicefstest.S3
	servers []*process
	mounts  []string
}

// needMounts skips a test where nothing can be mounted.
func needMounts(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		machine.Skip(t, "mounting wants root")
	}
	if _, err := os.Stat("/dev/fuse"); err != nil {
		machine.Skip(t, "there is no /dev/fuse")
	}
}

// newServers starts two servers of a new volume on Redis and S3, with additional flags.
func newServers(t *testing.T, flags ...string) *cluster {
	t.Helper()
	return newServersOn(t, juicefstest.Redis, juicefstest.StartS3(t), flags...)
}

// A metadata starts a metadata service: Redis or PostgreSQL.
type metadata func(testing.TB) (*juicefstest.Process, string)

// newServersOn is like newServers, with the given services.
func newServersOn(t *testing.T, start metadata, s3 *juicefstest.S3, flags ...string) *cluster {
	t.Helper()
	c := &cluster{t: t, s3: s3}
	c.meta, c.url = start(t)
	juicefstest.Format(t, c.url, c.s3)
	for range 2 {
		c.servers = append(c.servers, startProcess(t, c.url, flags...))
	}
	return c
}

// newCluster is like newServers, for a test that mounts the servers.
func newCluster(t *testing.T, flags ...string) *cluster {
	t.Helper()
	needMounts(t)
	return newServers(t, flags...)
}

// mount mounts the servers with these numbers. Each mount chooses its first server at random, so it
// is repeated until it uses the first in the list.
func (c *cluster) mount(options string, servers ...int) {
	c.t.Helper()
	dir := c.t.TempDir()
	var hosts []string
	for _, i := range servers {
		hosts = append(hosts, "127.0.0.1:"+c.servers[i].rdma)
	}
	c.t.Cleanup(func() {
		if out, err := c.umount(dir); err != nil {
			c.t.Errorf("umount: %v\n%s", err, out)
			_ = syscall.Unmount(dir, syscall.MNT_DETACH)
		}
	})
	for range 100 {
		if out, err := c.nfsrdma("mount", "-o", options, "nfsrdma://"+strings.Join(hosts, ",")+"/vol", dir); err != nil {
			c.t.Fatalf("mount: %v\n%s", err, out)
		}
		if c.used(dir) == servers[0] {
			c.mounts = append(c.mounts, dir)
			return
		}
		if out, err := c.umount(dir); err != nil {
			c.t.Fatalf("umount: %v\n%s", err, out)
		}
	}
	c.t.Fatalf("no mount begins with server %d", servers[0])
}

// umount unmounts dir. A copy of the mount in another mount namespace, such as a concurrent test's,
// is no error.
func (c *cluster) umount(dir string) (out []byte, err error) {
	c.t.Helper()
	const held = 64
	out, err = c.nfsrdma("umount", dir)
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == held {
		err = nil
	}
	return out, err
}

// nfsrdma runs the program nfsrdma.
func (c *cluster) nfsrdma(args ...string) (out []byte, err error) {
	c.t.Helper()
	bin, err := builtClient()
	if err != nil {
		c.t.Fatalf("builtClient: %v", err)
	}
	return exec.Command(filepath.Join(bin, "nfsrdma"), args...).CombinedOutput()
}

// used returns the number of the server that a mount uses, or -1 if the mount uses none.
func (c *cluster) used(dir string) int {
	c.t.Helper()
	out, err := c.nfsrdma("mountstats", "--json", dir)
	var report struct {
		Stats struct{ Connections []struct{ Addr string } }
	}
	if err == nil {
		err = json.Unmarshal(out, &report)
	}
	if err != nil || len(report.Stats.Connections) == 0 {
		c.t.Fatalf("mountstats: %v\n%s", err, out)
	}
	for i, s := range c.servers {
		if report.Stats.Connections[0].Addr == "127.0.0.1:"+s.rdma {
			return i
		}
	}
	return -1
}

// await waits for a condition, long enough for a busy machine.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for began := time.Now(); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > patience {
			t.Fatalf("never: %s", what)
		}
	}
}

// patience limits operations that take moments on an idle machine.
const patience = 10 * time.Minute
