// The path of the socket.

package control

import (
	"errors"
	"os"
	"path/filepath"
)

// RunDir has a directory for each program; the directory holds the socket of a server run by root.
// Dir is the directory of nfsrdmad.
const (
	RunDir = "/run"
	Dir    = "nfsrdma"
)

// name is the file name of all sockets.
const name = "control"

// FlagHelp returns the help of the flag that names a socket, for a program with a directory of its
// own.
func FlagHelp(dir string) string {
	return "control `SOCKET` of the server (default: " + filepath.Join(RunDir, dir, name) + ", or " + filepath.Join("$XDG_RUNTIME_DIR", dir, name) + ")"
}

// ErrNoPath means that the user has no directory for a socket.
var ErrNoPath = errors.New("XDG_RUNTIME_DIR is not set: run this as root if root runs the server, or name its socket with --control")

// Path returns the socket's path: asked, or else the user's default in the program's directory dir.
// Root's default is below run, which is RunDir outside tests. Path returns "" if the user has no
// directory for sockets.
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
