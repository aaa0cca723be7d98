// Command several runs schedules of package several where its tests cannot, as in a guest.
//
//	several check [-seed N] [-steps N] [-matrix] KIND:DIR …   a process for each directory; KIND is mount, noac or local
//	several serve ADDRESS DIR                                 is one actor, for whoever connects first
//
// It prints a line for each schedule that fails, and the steps that it takes; "-nolocks" after KIND says that
// locks of that mount hold within it alone.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"

	"github.com/nfsrdma/nfsrdma/test/several"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Println("several:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 2 && args[0] == "work":
		return several.Serve(args[1], os.Stdin, os.Stdout)
	case len(args) == 3 && args[0] == "serve":
		return serve(args[1], args[2])
	case len(args) > 1 && args[0] == "check":
		return check(args[1:])
	}
	return errors.New("see its source for what it takes")
}

// serve is an actor for one connection.
func serve(address, dir string) error {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	defer l.Close()
	c, err := l.Accept()
	if err != nil {
		return err
	}
	defer c.Close()
	return several.Serve(dir, c, c)
}

// check runs schedules until one fails, or the whole matrix.
func check(args []string) error {
	flags := flag.NewFlagSet("check", flag.ContinueOnError)
	seed := flags.Uint64("seed", 1, "of the first schedule")
	steps := flags.Int("steps", 1000, "how many are taken at least")
	matrix := flags.Bool("matrix", false, "the matrix for the first and the second actor, and both ways round")
	if err := flags.Parse(args); err != nil {
		return err
	}
	w := several.NewWorld(fmt.Sprint("several-", os.Getpid()))
	var ends []io.Closer
	defer func() {
		for _, end := range ends {
			end.Close()
		}
	}()
	for _, a := range flags.Args() {
		name, dir, _ := strings.Cut(a, ":")
		kind, found := map[string]several.Kind{"mount": {}, "noac": {NoCache: true}, "local": {Local: true}}[strings.TrimSuffix(name, "-nolocks")]
		if !found {
			return fmt.Errorf("%s: there is no such kind", a)
		}
		kind.Name, kind.NoLocks = a, strings.HasSuffix(name, "-nolocks")
		actor, end, err := process(dir)
		if err != nil {
			return err
		}
		ends = append(ends, end)
		w.Add(kind, actor)
	}
	if *matrix {
		return all(w)
	}
	taken, err := w.Check(*seed, *steps)
	fmt.Println(taken, "steps taken")
	return err
}

// process starts an actor.
func process(dir string) (several.Actor, io.Closer, error) {
	cmd := exec.Command(os.Args[0], "work", dir)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	return several.NewRemote(in, out), in, cmd.Start()
}

// all runs the matrix, whose cells fail each for itself.
func all(w *several.World) error {
	cells, failed := 0, 0
	for looker := range w.Kinds {
		for changer := range w.Kinds {
			if looker == changer {
				continue
			}
			for _, c := range several.Matrix(changer, looker) {
				cells++
				_, err := w.Run(c.Steps)
				var f *several.Failure
				if errors.As(err, &f) {
					failed++
					fmt.Printf("%s, changed by %s, seen by %s: %s: got %s, want %s\n", c.Name, w.Kinds[changer].Name, w.Kinds[looker].Name, f.Steps[len(f.Steps)-1], f.Got, f.Want)
				} else if err != nil {
					return err
				}
			}
		}
	}
	fmt.Println(cells, "cells")
	if failed > 0 {
		return fmt.Errorf("%d cells failed", failed)
	}
	return nil
}
