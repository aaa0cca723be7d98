// The command format as users run it.

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/cmd/nfsrdmad/program"
	"github.com/nfsrdma/nfsrdma/nfsserver/juicefs"
	"github.com/nfsrdma/nfsrdma/nfsserver/juicefs/juicefstest"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// TestFormat: the command makes a volume, and refuses a second one.
func TestFormat(t *testing.T) {
	_, url := juicefstest.Redis(t)
	run := func(args ...string) (string, error) {
		var out bytes.Buffer
		root := program.NewRoot(kind())
		root.SetOut(&out)
		root.SetErr(&out)
		root.SetArgs(append([]string{"format"}, args...))
		err := root.ExecuteContext(t.Context())
		return out.String(), err
	}
	bucket := t.TempDir()
	out, err := run("--bucket", bucket, "--capacity", "1G", url, "data")
	if want := "nfsrdmad-juicefs serve " + url + "=/data"; err != nil || !strings.Contains(out, want) {
		t.Fatalf("%s, %v; want %s", out, err, want)
	}
	if name, err := juicefs.Name(url); err != nil || name != "data" {
		t.Errorf("the volume is %q, %v; want data", name, err)
	}
	if _, err = run("--bucket", bucket, url, "more"); err == nil || !strings.Contains(err.Error(), "has a volume already, data") {
		t.Errorf("a second volume: %v", err)
	}
	if _, err = run("--bucket", bucket, "--capacity", "much", url, "more"); err == nil || !strings.Contains(err.Error(), "--capacity much") {
		t.Errorf("an invalid capacity: %v", err)
	}
}

// TestKeys: the keys for the object storage come from the environment or a file.
func TestKeys(t *testing.T) {
	t.Setenv("ACCESS_KEY", "a")
	t.Setenv("SECRET_KEY", "s")
	t.Setenv("SESSION_TOKEN", "t")
	var n juicefs.New
	if err := keys(&n, ""); err != nil || n.AccessKey != "a" || n.SecretKey != "s" || n.SessionToken != "t" {
		t.Errorf("from the environment: %+v, %v", n, err)
	}
	file := filepath.Join(t.TempDir(), "key")
	must.Succeed(t, os.WriteFile(file, []byte("from a file\r\nand more\n"), 0o600))
	n = juicefs.New{AccessKey: "given"}
	if err := keys(&n, file); err != nil || n.AccessKey != "given" || n.SecretKey != "from a file" {
		t.Errorf("from a file: %+v, %v", n, err)
	}
	if err := keys(&n, file+"-not-there"); err == nil {
		t.Error("no error for a missing file")
	}
}
