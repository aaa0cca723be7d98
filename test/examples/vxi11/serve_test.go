// The instrument with a controller in C, by rpcgen and libtirpc.

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nfsrdma/nfsrdma/test/machine"
	"github.com/nfsrdma/nfsrdma/test/must"
)

// controller compiles the C program and returns its path.
func controller(t *testing.T) string {
	for _, tool := range []string{"rpcgen", "cpp", "gcc-12"} {
		if _, err := exec.LookPath(tool); err != nil {
			machine.Skip(t, "no "+tool)
		}
	}
	dir := t.TempDir()
	for _, name := range []string{"core.x", "channels.x", "testdata/controller.c"} {
		b, err := os.ReadFile(name)
		must.Succeed(t, err, os.WriteFile(filepath.Join(dir, filepath.Base(name)), b, 0o666))
	}
	for _, line := range []string{
		"rpcgen -h -o core.h core.x", "rpcgen -c -o core_xdr.c core.x", "rpcgen -l -o core_clnt.c core.x",
		"rpcgen -h -o channels.h channels.x", "rpcgen -c -o channels_xdr.c channels.x", "rpcgen -l -o channels_clnt.c channels.x", "rpcgen -m -o channels_svc.c channels.x",
		"gcc-12 -w -I/usr/include/tirpc -o controller controller.c core_xdr.c core_clnt.c channels_xdr.c channels_clnt.c channels_svc.c -ltirpc",
	} {
		words := strings.Fields(line)
		cmd := exec.Command(words[0], words[1:]...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", line, err, out)
		}
	}
	return filepath.Join(dir, "controller")
}

// TestControllerOfC: a controller in C gets from our instrument an answer in two parts, an
// interrupt, and an abort of its read.
func TestControllerOfC(t *testing.T) {
	program := controller(t)
	core, end, err := serve("127.0.0.1:0")
	must.Succeed(t, err)
	defer func() { must.Succeed(t, end(context.Background())) }()
	cmd := exec.Command(program, fmt.Sprint(core.Port()))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	const want = "write 0 6\nread 0 1 EMULATED,\nread 0 4 GO,0,1\n\nchannel 0\nenable 0\nwrite 0 4\ninterrupt handle\nno channel 0\nabort 0\n" +
		"read 23 0 \ndestroy 0\nread 4 0 \n"
	if err != nil || string(out) != want {
		t.Errorf("the controller: %v, %s\ngot:\n%s\nwant:\n%s", err, &stderr, out, want)
	}
}
