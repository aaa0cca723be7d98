// Mounts of several servers by nfsrdma, and the programs that use them.

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/nfsserver/juicefs/internal/services"
	"github.com/nfsrdma/nfsrdma/test/machine"
)

// builtClient is the directory of nfsrdma, built once for all tests.
var builtClient = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "nfsrdma-")
	if err != nil {
		return "", err
	}
	clientDir = dir
	cmd := exec.Command("go", "build", "-o", dir+"/", "./cmd/nfsrdma")
	cmd.Dir = filepath.Join("..", "..", "..", "..")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("nfsrdma: %w\n%s", err, out)
	}
	return dir, nil
})

// clientDir is to be removed. It is read once no test runs.
var clientDir string

// A cluster is a volume on Redis and S3, its servers, and mounts of them.
type cluster struct {
	t       *testing.T
	s3      *services.S3
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

// newCluster starts servers of a new volume, with more flags, and mounts them twice, with options.
func newCluster(t *testing.T, servers int, options string, flags ...string) *cluster {
	t.Helper()
	needMounts(t)
	c := &cluster{t: t, s3: services.StartS3(t)}
	_, url := services.Redis(t)
	services.Format(t, url, c.s3)
	for range servers {
		c.servers = append(c.servers, startProcess(t, url, flags...))
	}
	for i := range 2 {
		c.mount(options, i)
	}
	return c
}

// mount mounts all servers, and again until the mount begins with the server of a number: each draws its own.
func (c *cluster) mount(options string, first int) {
	c.t.Helper()
	dir := c.t.TempDir()
	var hosts []string
	for _, s := range c.servers {
		hosts = append(hosts, "127.0.0.1:"+s.rdma)
	}
	c.t.Cleanup(func() {
		if out, err := c.nfsrdma("umount", dir); err != nil {
			c.t.Errorf("umount: %v\n%s", err, out)
			_ = syscall.Unmount(dir, syscall.MNT_DETACH)
		}
	})
	for range 100 {
		if out, err := c.nfsrdma("mount", "-o", options, "nfsrdma://"+strings.Join(hosts, ",")+"/vol", dir); err != nil {
			c.t.Fatalf("mount: %v\n%s", err, out)
		}
		if c.used(dir) == first {
			c.mounts = append(c.mounts, dir)
			return
		}
		if out, err := c.nfsrdma("umount", dir); err != nil {
			c.t.Fatalf("umount: %v\n%s", err, out)
		}
	}
	c.t.Fatalf("no mount begins with server %d", first)
}

// nfsrdma runs the client's program.
func (c *cluster) nfsrdma(args ...string) (out []byte, err error) {
	c.t.Helper()
	bin, err := builtClient()
	if err != nil {
		c.t.Fatal(err)
	}
	return exec.Command(filepath.Join(bin, "nfsrdma"), args...).CombinedOutput()
}

// used is the number of the server that a mount uses, and -1 where it is none.
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

// await waits for a condition, as long as a busy machine takes.
func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for began := time.Now(); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Since(began) > patience {
			t.Fatalf("never: %s", what)
		}
	}
}

// patience is for what takes moments on a machine that does nothing else.
const patience = 10 * time.Minute
