// The .x files of Debian's rpcsvc-proto and libtirpc-dev, and a file with the forms of NFSv4. Their
// generated code compiles, passes go vet, and reads and writes random messages of each type.

package main

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// debianFiles returns Debian's .x files. nis_callback.x needs nis.x, so a file in dir that includes
// both replaces it.
func debianFiles(t *testing.T, dir string) []string {
	var files []string
	for _, folder := range []string{"/usr/include/rpcsvc", "/usr/include/tirpc/rpc", "/usr/include/tirpc/rpcsvc"} {
		list, err := filepath.Glob(folder + "/*.x")
		must.Succeed(t, err)
		if len(list) == 0 {
			machine.Skip(t, "no .x files in "+folder)
		}
		files = append(files, list...)
	}
	callback := filepath.Join(dir, "nis_callback.x")
	text := "#include \"/usr/include/rpcsvc/nis.x\"\n#include \"/usr/include/rpcsvc/nis_callback.x\"\n"
	must.Succeed(t, os.WriteFile(callback, []byte(text), 0o666))
	files = slices.DeleteFunc(files, func(f string) bool { return filepath.Base(f) == "nis_callback.x" })
	return append(files, callback)
}

func TestDebianFiles(t *testing.T) {
	m, r := newModule(t), rand.New(rand.NewPCG(30, 6))
	files := debianFiles(t, t.TempDir())
	for _, file := range files {
		m.add(t, file, r)
	}
	if len(m.imports) < 19 {
		t.Errorf("got %d packages, want 19 or more", len(m.imports))
	}
	m.check(t)
}

// TestFormsOfNFSv4: the forms in the descriptions of NFSv4, in a file of our own.
func TestFormsOfNFSv4(t *testing.T) {
	m := newModule(t)
	m.add(t, "testdata/compound.x", rand.New(rand.NewPCG(30, 7)))
	m.check(t)
}
