// Command linux-guest makes and boots the Linux guests of the test suite by hand.
//
//	linux-guest build             make the images, unless they are in the cache
//	linux-guest shell             a shell in a guest, on this terminal
//	linux-guest run FILE          run a shell script in a guest ("-" is standard input)
//	linux-guest knfsd             Linux's NFS server, until interrupted
//	linux-guest beside [ROUNDS]   nfsrdmad and knfsd in one guest: a table of ratios;
//	                              some minutes per round
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/nfsrdma/nfsrdma/test/linux/guest"
	"github.com/nfsrdma/nfsrdma/test/linux/image"
)

var (
	series = flag.String("kernel", image.Series[0], "kernel `series`: 6.1 or 6.12")
	tlshd  = flag.Bool("tlshd", false, "the image with tlshd, for TLS on 6.12")
	siw    = flag.String("siw", string(guest.Fixed), "for knfsd, the driver: stock or fixed (of siw), or rxe")
)

func main() {
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: linux-guest [-kernel 6.1|6.12] [-siw stock|fixed|rxe] [-tlshd] build | shell | run FILE | knfsd | beside [ROUNDS]")
	}
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := command(ctx, flag.Arg(0))
	var exit *guest.ExitError
	if flag.Arg(0) == "run" && errors.As(err, &exit) {
		os.Exit(exit.Code) // the script's output has been printed
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "linux-guest:", err)
		os.Exit(1)
	}
}

func command(ctx context.Context, name string) error {
	log := func(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
	img, err := image.Get(ctx, *series, log)
	if err == nil && *tlshd {
		img, err = img.WithTLSHD(ctx, log)
	}
	if err != nil {
		return err
	}
	switch name {
	case "build":
		fmt.Println(img.Release, img.Kernel, img.Initrd)
		return nil
	case "shell":
		return guest.Shell(guest.Config{Image: img})
	case "run":
		return runScript(ctx, img, flag.Arg(1))
	case "knfsd":
		return knfsd(ctx, img)
	case "beside":
		rounds := 5
		if flag.NArg() > 1 {
			if rounds, err = strconv.Atoi(flag.Arg(1)); err != nil || rounds < 1 {
				return fmt.Errorf("beside %s: must be a number of rounds", flag.Arg(1))
			}
		}
		return beside(ctx, img, rounds)
	}
	flag.Usage()
	return errors.New("no such command")
}

func runScript(ctx context.Context, img *image.Image, path string) error {
	var script []byte
	var err error
	if path == "-" {
		script, err = io.ReadAll(os.Stdin)
	} else {
		script, err = os.ReadFile(path)
	}
	if err != nil {
		return err
	}
	start := time.Now()
	g, err := guest.Boot(ctx, guest.Config{Image: img})
	if err != nil {
		return err
	}
	defer g.Close()
	fmt.Fprintf(os.Stderr, "booted in %.1f s\n", time.Since(start).Seconds())
	out, err := g.Run(ctx, string(script))
	fmt.Print(out)
	return err
}

func knfsd(ctx context.Context, img *image.Image) error {
	s, err := guest.BootServer(ctx, guest.Config{Image: img}, guest.Siw(*siw))
	if err != nil {
		return err
	}
	defer s.Close()
	fmt.Printf("Linux %s exports /export: NFS over RDMA at %s, over TCP at %s, MOUNT at %s; Control-C ends it\n",
		img.Release, s.RDMA, s.TCP, s.Mount)
	<-ctx.Done()
	return nil
}
