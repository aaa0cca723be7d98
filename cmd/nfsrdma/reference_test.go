// The pages of docs/reference are up to date with the code.

package main

import (
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/nfsrdma/nfsrdma/cmd/internal/reference"
	"github.com/nfsrdma/nfsrdma/cmd/internal/session"
	"github.com/nfsrdma/nfsrdma/cmd/nfsrdmad/program"
	"github.com/nfsrdma/nfsrdma/cmd/nfsrdmad/volumes"
	"github.com/nfsrdma/nfsrdma/test/must"
	"github.com/spf13/cobra"
)

var update = flag.Bool("update", false, "write docs/reference")

// volumesRoot returns nfsrdmad-juicefs's command line without the code that serves volumes.
func volumesRoot() *cobra.Command {
	return program.NewRoot(volumes.Kind(&volumes.Serve{}, nil, nil))
}

func TestReference(t *testing.T) {
	const dir = "../../docs/reference"
	s := &session.Session{}
	pages, err := reference.Pages("../..", reference.Programs{Client: newRoot(s), Helper: newHelper(s), Server: program.NewRoot(nil), Volumes: volumesRoot()})
	if err != nil {
		t.Fatalf("Pages: %v", err)
	}
	if *update {
		must.Succeed(t, os.MkdirAll(dir, 0o755))
	}
	for name, want := range pages {
		path := filepath.Join(dir, name)
		if *update {
			must.Succeed(t, os.WriteFile(path, []byte(want), 0o644))
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatalf("os.ReadFile: %v", err)
		}
		if string(got) != want {
			t.Errorf("%s is out of date: run %s", path, reference.Update)
		}
	}
	there, err := filepath.Glob(dir + "/*")
	if err != nil {
		t.Fatalf("filepath.Glob: %v", err)
	}
	for i := range there {
		there[i] = filepath.Base(there[i])
	}
	if want := slices.Sorted(maps.Keys(pages)); !slices.Equal(there, want) {
		t.Errorf("%s has %q, want %q", dir, there, want)
	}
}
