// Command several runs schedules of package several where its tests cannot, as in a guest.
//
//	several check [-seed N] [-steps N] [-matrix N] [-tick FILE] KIND:DIR …   a process for each directory
//	several serve ADDRESS DIR                                 is one actor, for whoever connects first
//
// KIND is mount or noac for those of Linux's client, or local. It prints what fails. The file is one of the file system that is served.
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
	matrix := flags.Int("matrix", 0, "instead the matrix, each cell for one pair of the actors, or each such cell of some")
	tick := flags.String("tick", "", "a file that is made, by whose times the server's clock is known")
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
		kind, found := map[string]several.Kind{"mount": {Kernel: true}, "noac": {Kernel: true, NoCache: true}, "local": {Local: true}}[name]
		if !found {
			return fmt.Errorf("%s: there is no such kind", a)
		}
		kind.Name = a
		actor, end, err := process(dir)
		if err != nil {
			return err
		}
		ends = append(ends, end)
		w.Add(kind, actor)
	}
	if *tick != "" {
		var err error
		if w.Tick, err = several.TickOf(*tick); err != nil {
			return err
		}
	}
	if *matrix > 0 {
		return all(w, *seed, *matrix)
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

// all runs one of some cells of the matrix, each for one pair of actors, in turn. Those that fail are printed.
func all(w *several.World, seed uint64, of int) error {
	var pairs [][2]int
	for looker := range w.Kinds {
		for changer := range w.Kinds {
			if looker != changer && !w.Kinds[looker].Local {
				pairs = append(pairs, [2]int{changer, looker})
			}
		}
	}
	failed := 0
	for i, pair := range pairs {
		for at, c := range several.Matrix(pair[0], pair[1]) {
			if turn := at + int(seed%1000); turn%len(pairs) != i || turn/len(pairs)%of != 0 {
				continue
			}
			_, err := w.Run(c.Steps)
			var f *several.Failure
			if errors.As(err, &f) {
				failed++
				fmt.Printf("%s, changed by actor %d, seen by actor %d: %v\n", c.Name, pair[0], pair[1], w.Shrink(f))
			} else if err != nil {
				return err
			}
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d cells failed", failed)
	}
	return nil
}
