// Where the socket is.

package control

import (
	"errors"
	"os"
	"path/filepath"
)

// RunDir has a directory for each program, with the socket of a server that root runs; Dir is that of nfsrdmad.
const (
	RunDir = "/run"
	Dir    = "nfsrdma"
)

// name is that of sockets.
const name = "control"

// FlagHelp describes the flag that names a socket, for a program with a directory of its own.
func FlagHelp(dir string) string {
	return "control `SOCKET` of the server (default: " + filepath.Join(RunDir, dir, name) + ", or " + filepath.Join("$XDG_RUNTIME_DIR", dir, name) + ")"
}

// ErrNoPath is that there is no place for the socket of a user.
var ErrNoPath = errors.New("XDG_RUNTIME_DIR is not set: run this as root if root runs the server, or name its socket with --control")

// Path is the socket that was asked for, or else that of the user who runs the program, in its directory dir: of RunDir, or what a
// test has in its place, for root. "": there is no place for it.
func Path(asked, run, dir string) string {
	switch {
	case asked != "":
		return asked
	case os.Geteuid() == 0:
		return filepath.Join(run, dir, name)
	case os.Getenv("XDG_RUNTIME_DIR") != "":
		return filepath.Join(os.Getenv("XDG_RUNTIME_DIR"), dir, name)
	}
	return ""
}
