// Object storage: an S3 server, and volumes with their objects in it.

package juicefstest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/juicedata/juicefs/pkg/meta"
	"github.com/juicedata/juicefs/pkg/object"
	"github.com/nfsrdma/nfsrdma/test/machine"
)

const (
	accessKey = "test"
	secretKey = "test-secret"
)

// builtS3 is the path of the S3 server's program, built once for all tests of a process. It is
// versitygw: it stores objects as plain files, and has JuiceFS's license. (testdata/versitygw has
// its version.)
var builtS3 = sync.OnceValues(func() (path string, err error) {
	built = true
	dir, err := os.MkdirTemp("", "versitygw-")
	if err != nil {
		return "", err
	}
	path = filepath.Join(dir, "versitygw")
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	cmd := exec.Command("go", "build", "-o", path, "github.com/versity/versitygw/cmd/versitygw")
	cmd.Dir = filepath.Join(root, "testdata", "versitygw")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("versitygw: %w\n%s", err, out)
	}
	return path, nil
})

// moduleRoot returns the directory of the JuiceFS module, which the test is in or requires.
func moduleRoot() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/nfsrdma/nfsrdma/nfsserver/juicefs").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("the module of JuiceFS: %w\n%s", err, out)
	}
	return strings.TrimSpace(string(out)), nil
}

// built: there is a program to remove. It is read after the last test.
var built bool

// Done removes the built program. Call it at the end of a test's main.
func Done() {
	if !built {
		return
	}
	if path, err := builtS3(); err == nil {
		os.RemoveAll(filepath.Dir(path))
	}
}

// An S3 is an S3 server after a proxy that can inject faults.
type S3 struct {
	*Proxy
	Dir string // with the buckets
}

// StartS3 starts an S3 server.
func StartS3(t testing.TB) *S3 {
	t.Helper()
	return StartS3In(t, dir(t, 0))
}

// StartS3In starts an S3 server with its buckets in a directory, such as a small file system.
func StartS3In(t testing.TB, buckets string) *S3 {
	t.Helper()
	path, err := builtS3()
	if err != nil {
		t.Fatal(err)
	}
	port, sidecar := machine.Port(t), dir(t, 0)
	at := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	p := run(t, port, 0, nil, path, "--access", accessKey, "--secret", secretKey, "--port", at, "--quiet", "posix", "--sidecar", sidecar, buckets)
	return &S3{newProxy(t, p.Addr), buckets}
}

// Format makes a volume with its metadata at url and its objects in a bucket of s, like `juicefs
// format`.
func Format(t testing.TB, url string, s *S3) {
	t.Helper()
	name := "bucket-" + uuid.NewString()
	// The server treats a directory as a bucket.
	if err := os.Mkdir(filepath.Join(s.Dir, name), 0o755); err != nil {
		t.Fatal(err)
	}
	m := meta.NewClient(url, meta.DefaultConf())
	err := m.Init(&meta.Format{
		Name: "vol", UUID: uuid.NewString(), Storage: "s3", Bucket: "http://" + s.Addr + "/" + name, AccessKey: accessKey, SecretKey: secretKey, Tiers: object.NewTiers(""),
		BlockSize: 4096, EnableACL: true, DirStats: true, MetaVersion: meta.MaxVersion, MinClientVersion: "1.2.0-A",
	}, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Shutdown(); err != nil {
		t.Fatal(err)
	}
}
