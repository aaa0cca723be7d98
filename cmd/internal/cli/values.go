// Flag values that all commands write alike: durations, switches and ports.

package cli

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// off is the flag value that turns something off.
const off = "off"

// DurationVar defines a flag for a duration, such as 30s or 5m. A bare number is in seconds.
func DurationVar(f *pflag.FlagSet, to *time.Duration, name string, value time.Duration, usage string) {
	DurationVarP(f, to, name, "", value, usage)
}

// DurationVarP is like DurationVar, with a one-letter form of the flag.
func DurationVarP(f *pflag.FlagSet, to *time.Duration, name, letter string, value time.Duration, usage string) {
	*to = value
	f.VarP((*duration)(to), name, letter, usage)
}

type duration time.Duration

func (d *duration) String() string {
	if *d == 0 {
		return "0"
	}
	return time.Duration(*d).String()
}

func (d *duration) Type() string { return "duration" }

func (d *duration) Set(s string) error {
	if seconds, err := strconv.ParseFloat(s, 64); err == nil && seconds > -maxSeconds && seconds < maxSeconds {
		*d = duration(seconds * float64(time.Second))
		return nil
	}
	v, err := time.ParseDuration(s)
	if err != nil {
		return errors.New("must be a time such as 5s, 2m or 1h; a number alone is seconds")
	}
	*d = duration(v)
	return nil
}

// maxSeconds is below the limit of a time.Duration.
const maxSeconds = 9e9

// PortVar defines a flag for a port; 0 and "off" mean none.
func PortVar(f *pflag.FlagSet, to *uint16, name string, value uint16, usage string) {
	*to = value
	f.Var((*port)(to), name, usage)
}

type port uint16

func (p *port) String() string {
	if *p == 0 {
		return off
	}
	return strconv.Itoa(int(*p))
}

func (p *port) Type() string { return "port" }

func (p *port) Set(s string) error {
	if s == off {
		*p = 0
		return nil
	}
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil {
		return fmt.Errorf("must be a port from 1 to 65535, or %s", off)
	}
	*p = port(n)
	return nil
}

// CutPort splits HOST:PORT in a flag for an address of this host; port is 0 if addr has none. An
// IPv6 address with a port has brackets.
func CutPort(addr string) (host string, port uint16) {
	if _, err := netip.ParseAddr(addr); err == nil {
		return addr, 0
	}
	host, digits, err := net.SplitHostPort(addr)
	n, nan := strconv.ParseUint(digits, 10, 16)
	if err != nil || nan != nil || n == 0 {
		return addr, 0
	}
	return host, uint16(n)
}

// SwitchVar defines an on/off flag of cmd. It also accepts the values of bool flags, with a
// warning.
func SwitchVar(cmd *cobra.Command, to *bool, name string, value bool, usage string) {
	*to = value
	cmd.Flags().Var(&onOff{to, cmd, name}, name, usage)
}

type onOff struct {
	to   *bool
	cmd  *cobra.Command
	name string
}

func (v *onOff) String() string {
	if v.to == nil || !*v.to {
		return off
	}
	return "on"
}

func (v *onOff) Type() string { return "on|off" }

func (v *onOff) Set(s string) error {
	switch s {
	case "on", off:
		*v.to = s == "on"
		return nil
	case "true", "false":
		*v.to = s == "true"
		Warn(v.cmd, fmt.Sprintf("--%s=%s is now written --%s %s", v.name, s, v.name, v))
		return nil
	}
	return fmt.Errorf("must be on or %s", off)
}
