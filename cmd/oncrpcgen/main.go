// Command oncrpcgen writes Go for a program in the RPC language (RFC 5531 §12, RFC 4506 §6): types,
// a client and a server on packages xdr and transport.
//
//	//go:generate go run github.com/nfsrdma/nfsrdma/cmd/oncrpcgen prog.x
//
// docs/oncrpcgen.md describes the input and the output.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/nfsrdma/nfsrdma/cmd/oncrpcgen/internal/check"
	"github.com/nfsrdma/nfsrdma/cmd/oncrpcgen/internal/syntax"
	"github.com/nfsrdma/nfsrdma/cmd/oncrpcgen/internal/write"
)

func main() {
	if err := run(os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// A command is a parsed command line.
type command struct {
	in, out string
	defines map[string]string
	check   check.Options
	write   write.Options
}

// parseCommand reads the command line.
func parseCommand(args []string) (*command, error) {
	c := &command{defines: map[string]string{}}
	f := flag.NewFlagSet("oncrpcgen", flag.ContinueOnError)
	f.Usage = func() {
		fmt.Fprintf(f.Output(), "Usage: oncrpcgen [flags] FILE.x\n\nWrites Go for a program in the RPC language.\n\n")
		f.PrintDefaults()
	}
	f.StringVar(&c.out, "o", "", "write to `file`; without it, to FILE_xdr.go")
	f.StringVar(&c.write.Package, "package", os.Getenv("GOPACKAGE"), "`name` of the package; without it, that of go generate, or FILE")
	f.BoolVar(&c.write.Types, "types", false, "write types only, no clients and servers")
	f.BoolVar(&c.check.Bytes, "bytes", false, "make strings []byte, which decoding leaves in the message")
	f.Uint64Var(&c.check.Max, "max", 1<<20, "limit in `bytes` for items and lists without one, and for replies")
	f.Func("D", "define the macro `name[=value]`; may be repeated", func(s string) error {
		name, value, ok := strings.Cut(s, "=")
		if !ok {
			value = "1"
		}
		c.defines[name] = value
		return nil
	})
	f.Func("ddp", "mark `TYPE.FIELD` as ddp-eligible: it may travel as a chunk; may be repeated", func(s string) error {
		c.check.Items = append(c.check.Items, s)
		return nil
	})
	f.SetOutput(io.Discard) // main prints errors
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			f.SetOutput(os.Stdout)
			f.Usage()
		}
		return nil, err
	}
	if f.NArg() != 1 {
		return nil, errors.New("oncrpcgen: one file is needed; -h shows the flags")
	}
	if c.check.Max < 4 || c.check.Max > 1<<30 {
		return nil, errors.New("oncrpcgen: -max must be from 4 to 1073741824")
	}
	c.in = f.Arg(0)
	base := strings.TrimSuffix(filepath.Base(c.in), ".x")
	if c.out == "" {
		c.out = filepath.Join(filepath.Dir(c.in), base+"_xdr.go")
	}
	if c.write.Package == "" {
		c.write.Package = base
	}
	c.write.Source, c.write.Max = filepath.Base(c.in), c.check.Max
	return c, nil
}

// generate returns the code.
func (c *command) generate() ([]byte, error) {
	src, err := os.ReadFile(c.in)
	if err != nil {
		return nil, err
	}
	file, err := syntax.Parse(c.in, src, syntax.Options{Defines: c.defines, Include: os.ReadFile})
	if err != nil {
		return nil, err
	}
	model, err := check.Check(file, c.check)
	if err != nil {
		return nil, err
	}
	return write.Go(model, c.write)
}

func run(args []string) error {
	c, err := parseCommand(args)
	if err != nil {
		return err
	}
	code, err := c.generate()
	if err != nil {
		return err
	}
	return os.WriteFile(c.out, code, 0o666)
}
