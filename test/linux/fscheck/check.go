// The list of checks, and their environment.

// Package fscheck exercises a mounted file system through system calls and reports deviations from
// POSIX and NFS. It runs in the guest on one of our mounts, and in its own tests on a local
// directory, which verify the checks themselves.
package fscheck

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
)

// Env is a check's directory and its privileges.
type Env struct {
	Dir  string // a fresh directory on the file system
	Root bool   // root's privileges apply: device nodes, foreign owners
	// Large is the size of large files, a multiple of 4 MB.
	Large int
	// Forget drops the client's caches, so that the next read asks the server. It is never nil.
	Forget func() error
}

// Check is one behaviour.
type Check struct {
	Name string
	Run  func(e Env) error
}

// Checks are in order of importance.
var Checks = []Check{
	{"sizes", sizes},
	{"large-buffered", largeBuffered},
	{"large-direct", largeDirect},
	{"mmap", mapped},
	{"sparse", sparse},
	{"truncate", truncate},
	{"append", appendTo},
	{"rename", rename},
	{"hard-links", hardLinks},
	{"symlinks", symlinks},
	{"nodes", nodes},
	{"attributes", attributes},
	{"names", names},
	{"deep", deep},
	{"unlink-open", unlinkOpen},
	{"exclusive", exclusive},
	{"beyond-4g", beyond4G},
	{"parallel", parallel},
	{"processes", processes},
	{"readdir", readdir},
	{"statfs", statFS},
	{"permission", permission},
}

// path joins elements to the check's directory.
func (e Env) path(elem ...string) string {
	return filepath.Join(append([]string{e.Dir}, elem...)...)
}

// data returns n bytes that depend only on n and seed.
func data(n int, seed uint64) []byte {
	var key [32]byte
	key[0], key[1], key[2], key[3] = byte(n), byte(n>>8), byte(n>>16), byte(n>>24)
	for i := range 8 {
		key[8+i] = byte(seed >> (8 * i))
	}
	b := make([]byte, n)
	rand.NewChaCha8(key).Read(b)
	return b
}

// put writes a file and syncs it to the server.
func put(path string, b []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	if _, err := f.Write(b); err != nil {
		f.Close()
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// holds returns an error unless a file has exactly this content.
func holds(path string, want []byte) error {
	got, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return same(filepath.Base(path), got, want)
}

// same reports the first difference between two contents, without printing the contents.
func same(what string, got, want []byte) error {
	if bytes.Equal(got, want) {
		return nil
	}
	at := 0
	for at < len(got) && at < len(want) && got[at] == want[at] {
		at++
	}
	return fmt.Errorf("%s: %d bytes (%x), want %d (%x); they part at %d",
		what, len(got), sum(got), len(want), sum(want), at)
}

func sum(b []byte) []byte { s := sha256.Sum256(b); return s[:4] }

// wants returns an error unless got is want.
func wants(what string, got, want error) error {
	if errors.Is(got, want) {
		return nil
	}
	return fmt.Errorf("%s: %v, want %v", what, got, want)
}
