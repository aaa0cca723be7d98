// Metadata services: Redis and PostgreSQL.

package juicefstest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/machine"
)

// Redis starts a Redis that syncs each transaction before its reply. The URL is for an empty
// volume.
func Redis(t testing.TB) (p *Process, url string) {
	t.Helper()
	port := machine.Port(t)
	p = run(t, port, 0, nil, program(t, "redis-server"), "--port", strconv.Itoa(port), "--bind", "127.0.0.1", "--dir", dir(t, 0),
		"--appendonly", "yes", "--appendfsync", "always", "--save", "", "--maxmemory-policy", "noeviction")
	return p, "redis://" + p.Addr + "/1"
}

// nobody is the user for PostgreSQL if the test runs as root, which PostgreSQL refuses.
const nobody = 65534

// Postgres starts a PostgreSQL with a new cluster. The URL is for an empty volume.
func Postgres(t testing.TB) (p *Process, url string) {
	t.Helper()
	bin, err := filepath.Glob("/usr/lib/postgresql/*/bin")
	if err != nil || len(bin) == 0 {
		machine.Skip(t, "needs postgresql")
	}
	var uid uint32
	if os.Geteuid() == 0 {
		uid = nobody
	}
	data := filepath.Join(dir(t, uid), "data")
	initdb := exec.Command(filepath.Join(bin[0], "initdb"), "-D", data, "-U", "postgres", "-A", "trust", "--no-sync", "--locale=C.UTF-8")
	initdb.Dir = "/"
	if uid != 0 {
		initdb.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	}
	if out, err := initdb.CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	port := machine.Port(t)
	ready := func() bool {
		return exec.Command(filepath.Join(bin[0], "pg_isready"), "-h", "127.0.0.1", "-p", strconv.Itoa(port)).Run() == nil
	}
	p = run(t, port, uid, ready, filepath.Join(bin[0], "postgres"), "-D", data, "-p", strconv.Itoa(port), "-k", "", "-c", "listen_addresses=127.0.0.1",
		// Shared memory is in files of its directory, which are removed with it.
		"-c", "dynamic_shared_memory_type=mmap")
	// If killed, it would leave its System V shared memory, of which a machine has a few thousand.
	// SIGQUIT makes it end at once by itself.
	t.Cleanup(func() { p.end(syscall.SIGQUIT) })
	return p, "postgres://postgres@" + p.Addr + "/postgres?sslmode=disable"
}
