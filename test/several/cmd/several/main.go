// Command several runs schedules of package several where its tests cannot run, such as in a guest.
//
//	several check [-seed N] [-steps N] [-matrix N] [-tick FILE] KIND:DIR …   one process per DIR
//	several serve ADDRESS DIR                    one actor, for the first connection
//
// KIND is mount or noac for Linux's client, or local. It prints failures. FILE is on the served
// file system.
package main

import (
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/nfsrdma/nfsrdma/test/several"
)

func main() {
	several.Main()
	if err := run(os.Args[1:]); err != nil {
		fmt.Println("several:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 3 && args[0] == "serve":
		return serve(args[1], args[2])
	case len(args) > 1 && args[0] == "check":
		return check(args[1:])
	}
	return errors.New("see its source for the arguments")
}

// serve runs an actor for one connection.
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

// check runs schedules until a schedule fails, or the whole matrix.
func check(args []string) error {
	flags := flag.NewFlagSet("check", flag.ContinueOnError)
	seed := flags.Uint64("seed", 1, "of the first schedule")
	steps := flags.Int("steps", 1000, "how many are taken at least")
	matrix := flags.Int("matrix", 0, "instead the matrix: 1 is each cell for one pair of the actors, n each nth such cell, -1 each cell for all pairs")
	tick := flags.String("tick", "", "a file to make, to read the server's clock from its times")
	if err := flags.Parse(args); err != nil {
		return err
	}
	w := several.NewWorld(fmt.Sprint("several-", os.Getpid()))
	for _, a := range flags.Args() {
		name, dir, _ := strings.Cut(a, ":")
		kind, found := map[string]several.Kind{"mount": {Kernel: true}, "noac": {Kernel: true, NoCache: true}, "local": {Local: true}}[name]
		if !found {
			return fmt.Errorf("%s: there is no such kind", a)
		}
		kind.Name = a
		if err := w.Process(kind, dir); err != nil {
			return err
		}
	}
	if *tick != "" {
		var err error
		if w.Tick, err = several.TickOf(*tick); err != nil {
			return err
		}
	}
	var err error
	if *matrix != 0 {
		err = all(w, *seed, *matrix)
	} else {
		err = random(w, *seed, *steps)
	}
	return errors.Join(err, w.Close())
}

// random runs schedules until a schedule fails.
func random(w *several.World, seed uint64, steps int) error {
	var failed error
	taken, err := w.Check(seed, steps, func(failure error) bool {
		failed = failure
		return false
	})
	fmt.Println(taken, "steps taken")
	return errors.Join(failed, err)
}

// all runs cells of the matrix and prints the failing cells.
func all(w *several.World, seed uint64, every int) error {
	var pairs [][2]int
	for looker := range w.Kinds {
		for changer := range w.Kinds {
			if looker != changer && !w.Kinds[looker].Local {
				pairs = append(pairs, [2]int{changer, looker})
			}
		}
	}
	failed := 0
	cells, err := w.CheckMatrix(pairs, seed, every, func(failure error) {
		failed++
		fmt.Println(failure)
	})
	fmt.Println(failed, "of", cells, "cells failed")
	if failed > 0 {
		return errors.New("the matrix failed")
	}
	return err
}
