// bench --mount: every figure is in both forms, and nothing is left behind, even after an
// interruption.

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nfsrdma/nfsrdma/cmd/internal/bench"
	"github.com/nfsrdma/nfsrdma/cmd/internal/mounter"
	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// mountsIn returns the mounts below the directories that demonstrations make in dir.
func mountsIn(t *testing.T, dir string) (lines []string) {
	t.Helper()
	all, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatalf("os.ReadFile: %v", err)
	}
	for line := range strings.Lines(string(all)) {
		if strings.Contains(line, dir) {
			lines = append(lines, line)
		}
	}
	return lines
}

// benchHere makes measurements create their directories in the test's directory, which is checked
// at the end.
func benchHere(t *testing.T) string {
	t.Helper()
	if err := mounter.CheckFUSE(); err != nil {
		machine.Skip(t, err.Error())
	}
	dir := t.TempDir()
	t.Setenv(scratchEnv, dir)
	return dir
}

func nothingLeft(t *testing.T, dir string) {
	t.Helper()
	if left := mountsIn(t, dir); len(left) > 0 {
		t.Errorf("still mounted:\n%s", strings.Join(left, ""))
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

func TestBenchMountMeasuresEveryRow(t *testing.T) {
	dir := benchHere(t)
	rdma, _ := serve(t)
	few := []string{"bench", "--mount", "--json", "--rounds", "2", "--files", "120", "--size", "4M", "--duration", "20ms"}
	for name, args := range map[string][]string{"a server of its own": few, "another's": append(few, rdma+"/dir")} {
		t.Run(name, func(t *testing.T) {
			var r bench.MountReport
			must.Succeed(t, json.Unmarshal([]byte(nfs(t, args...)), &r))
			if len(r.Data) != 3 || len(r.Pairs) != 7 || len(r.Skipped) != 0 || r.Verified == 0 {
				t.Errorf("%d and %d rows, %q skipped, %d bytes verified", len(r.Data), len(r.Pairs), r.Skipped, r.Verified)
			}
			for _, d := range r.Data {
				for _, f := range []bench.Figure{d.Library, d.Null, d.Mount} {
					if len(f.Values) != 2 || f.Median <= 0 || f.Median > 1e7 {
						t.Errorf("%s: %+v", d.Name, f)
					}
				}
				if d.Limit >= d.Library.Median || d.Limit >= d.Null.Median || d.Share != d.Mount.Median/d.Limit {
					t.Errorf("%s: limit %v, share %v", d.Name, d.Limit, d.Share)
				}
			}
			for _, p := range r.Pairs {
				if len(p.Mount.Values) != 2 || len(p.Other.Values) != 2 || p.Other.Median <= 0 || p.Ratio != p.Mount.Median/p.Other.Median {
					t.Errorf("%+v", p)
				}
			}
			var b strings.Builder
			if err := r.Table(&b); err != nil || !strings.Contains(b.String(), "of limit") || !strings.Contains(b.String(), "untar of 120 files") {
				t.Errorf("%v\n%s", err, &b)
			}
			nothingLeft(t, dir)
		})
	}
	if out := nfs(t, "ls", "-a", rdma+"/dir"); strings.Contains(out, "bench") {
		t.Errorf("left on the server:\n%s", out)
	}
}

func TestBenchMountCleansUpWhenInterrupted(t *testing.T) {
	dir := benchHere(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan int)
	var out, errOut bytes.Buffer
	go func() {
		done <- run(ctx, []string{"bench", "--mount", "--files", "0", "--size", "4M"}, strings.NewReader(""), &out, &errOut)
	}()
	for len(mountsIn(t, dir)) < 2 {
		select {
		case code := <-done:
			t.Fatalf("exit code %d before anything was mounted\n%s", code, &errOut)
		case <-time.After(5 * time.Millisecond):
		}
	}
	cancel()
	if code := <-done; code != 130 {
		t.Errorf("exit code %d\n%s", code, &errOut)
	}
	nothingLeft(t, dir)
}

func TestBenchMountRefusesWhatItCannotMeasure(t *testing.T) {
	for args, want := range map[string]string{
		"bench":                           "bench URL | --mount [URL]",
		"bench --mount --tests read":      "[mount tests]",
		"bench --mount --rounds 0":        "--rounds 0 is less than 1",
		"bench --mount --files -1":        "--files -1 is less than 0",
		"bench --mount --depth 0":         "--depth 0 is not in 1..",
		"bench --mount --size 4M nowhere": "not a remote path",
	} {
		if out, errOut, code := try(t, strings.Fields(args)...); code == 0 || !strings.Contains(errOut, want) {
			t.Errorf("%s: exit code %d, no %q in\n%s%s", args, code, want, errOut, out)
		}
	}
}
