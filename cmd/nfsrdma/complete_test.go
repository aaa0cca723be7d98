// Tests of the completion of remote paths.

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/must"
)

func TestRemotePathsComplete(t *testing.T) {
	dir := t.TempDir()
	rdma, tcp := serveDir(t, dir)
	for _, name := range []string{"file one", "file2", ".hidden", "other", "new\nline"} {
		must.Succeed(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	must.Succeed(t, os.MkdirAll(filepath.Join(dir, "sub", "deep"), 0o700))
	must.Succeed(t, os.Symlink("sub", filepath.Join(dir, "link")))
	host := strings.TrimPrefix(tcp, "nfs://")
	for typed, want := range map[string]string{
		rdma + "/dir/fi":               rdma + "/dir/file%20one " + rdma + "/dir/file2 :4",
		tcp + "/dir/":                  tcp + "/dir/file%20one " + tcp + "/dir/file2 " + tcp + "/dir/link/ " + tcp + "/dir/other " + tcp + "/dir/sub/ :4",
		tcp + "/dir/file%20":           tcp + "/dir/file%20one :4",
		tcp + "/dir/.":                 tcp + "/dir/.hidden :4",
		tcp + "/dir/sub/../s":          tcp + "/dir/sub/../sub/ :6",
		tcp + "/dir/link/":             tcp + "/dir/link/deep/ :6",
		tcp + "/":                      tcp + "/mem/ " + tcp + "/dir/ :4",
		tcp + "/d":                     tcp + "/dir/ :6",
		tcp + "/dir/none":              ":4",
		tcp + "/dir/nothing/x":         ":4",
		"nfs://127.0.0.1:1/dir/x":      ":4",
		"nfsrdma://" + host + "/dir/x": ":4", // the port of another transport
		"local/fi":                     ":4",
	} {
		out, _, code := try(t, "__complete", "ls", typed)
		lines := strings.Split(strings.TrimSpace(out), "\n")
		if got := strings.Join(lines, " "); code != 0 || !sameWords(got, want) {
			t.Errorf("%s: %q, want %q", typed, got, want)
		}
	}
	if out, _, _ := try(t, "__complete", "cp", "local/fi"); strings.TrimSpace(out) != ":0" {
		t.Errorf("a local path of cp: %q", out)
	}
}

// sameWords reports whether two lists hold the same words in any order.
func sameWords(a, b string) bool {
	x, y := strings.Fields(a), strings.Fields(b)
	count := make(map[string]int)
	for _, w := range x {
		count[w]++
	}
	for _, w := range y {
		count[w]--
	}
	for _, n := range count {
		if n != 0 {
			return false
		}
	}
	return len(x) == len(y)
}
