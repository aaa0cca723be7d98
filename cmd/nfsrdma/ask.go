// Questions to the user in coreutils' form: on standard error, yes if the answer begins with y.

package main

import (
	"bufio"
	"fmt"
	"io"
	"strings"
)

// An asker asks questions and reads the answers. The end of input means no.
type asker struct {
	prefix string // "nfsrdma: COMMAND: "
	in     *bufio.Reader
	out    io.Writer
}

func newAsker(command string, in io.Reader, out io.Writer) *asker {
	return &asker{"nfsrdma: " + command + ": ", bufio.NewReader(in), out}
}

func (a *asker) yes(format string, args ...any) bool {
	fmt.Fprintf(a.out, a.prefix+format+"? ", args...)
	line, _ := a.in.ReadString('\n')
	return strings.HasPrefix(line, "y") || strings.HasPrefix(line, "Y")
}
