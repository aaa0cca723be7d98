// fusermount3: mounting for ordinary users, by FUSE's set-id program.

package fuseloop

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// helper returns the path of fusermount3 or its predecessor.
func helper() (string, error) {
	for _, name := range []string{"fusermount3", "/bin/fusermount3", "fusermount", "/bin/fusermount"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("there is no fusermount3: %w", unix.EPERM)
}

// mountByHelper mounts by fusermount3. The program returns the descriptor through a socket. Its
// environment has the socket's number.
func mountByHelper(dir string, opts *fuse.MountOptions) (int, error) {
	bin, err := helper()
	if err != nil {
		return -1, err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, os.NewSyscallError("socketpair", err)
	}
	defer unix.Close(pair[0])
	theirs := os.NewFile(uintptr(pair[1]), "socket")
	args := []string{dir}
	if words := helperWords(opts); len(words) > 0 {
		args = append(args, "-o", strings.Join(words, ","))
	}
	cmd := exec.Command(bin, args...)
	cmd.Env = append(os.Environ(), "_FUSE_COMMFD=3")
	cmd.ExtraFiles = []*os.File{theirs}
	err = runHelper(cmd)
	theirs.Close()
	if err != nil {
		return -1, err
	}
	return receiveFD(pair[0])
}

// helperWords returns the options for fusermount3, with commas inside an option escaped.
func helperWords(opts *fuse.MountOptions) []string {
	words := append([]string(nil), opts.Options...)
	if opts.AllowOther {
		words = append(words, "allow_other")
	}
	words = append(words, "fsname="+opts.FsName, "subtype="+opts.Name, fmt.Sprintf("max_read=%d", maxWrite(opts)))
	escape := strings.NewReplacer(`\`, `\\`, `,`, `\,`)
	for i := range words {
		words[i] = escape.Replace(words[i])
	}
	return words
}

// receiveFD receives one descriptor; it is closed on exec.
func receiveFD(socket int) (int, error) {
	var data [4]byte
	control := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(socket, data[:], control, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return -1, os.NewSyscallError("recvmsg", err)
	}
	messages, err := unix.ParseSocketControlMessage(control[:n])
	if err != nil {
		return -1, err
	}
	for i := range messages {
		if fds, err := unix.ParseUnixRights(&messages[i]); err == nil && len(fds) == 1 {
			return fds[0], nil
		}
	}
	return -1, errors.New("fusermount3 has sent no descriptor")
}

// unmountByHelper unmounts by fusermount3.
func unmountByHelper(dir string) error {
	bin, err := helper()
	if err != nil {
		return err
	}
	return runHelper(exec.Command(bin, "-u", dir))
}

// runHelper runs fusermount3. Its standard error becomes the error.
func runHelper(cmd *exec.Cmd) error {
	var said bytes.Buffer
	cmd.Stderr = &said
	err := cmd.Run()
	if text := strings.TrimSpace(said.String()); err != nil && text != "" {
		return fmt.Errorf("%s (%w)", strings.ReplaceAll(text, "\n", "; "), err)
	}
	return err
}
