// Short formats of rates, sizes and times, so that columns do not move.

package top

import (
	"fmt"
	"math"
	"time"
)

// formatCount formats a rate or number in at most seven characters.
func formatCount(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v < 0.1:
		return "<0.1"
	case v < 99.95:
		return fmt.Sprintf("%.1f", v)
	case v < 999_999.5:
		return fmt.Sprintf("%.0f", v)
	}
	for i, unit := range "MGTP" {
		if scaled := v / math.Pow(1000, float64(i+2)); scaled < 999.95 {
			return fmt.Sprintf("%.1f%c", scaled, unit)
		}
	}
	return "999P+"
}

// formatMiB formats bytes in MiB.
func formatMiB(bytes float64) string { return formatCount(bytes / (1 << 20)) }

// formatSeconds formats seconds with three digits, in ASCII because not all terminals have the
// letter µ.
func formatSeconds(seconds float64) string {
	switch {
	case seconds <= 0:
		return "-"
	case seconds < 999.5e-6:
		return digits(seconds*1e6) + "us"
	case seconds < 999.5e-3:
		return digits(seconds*1e3) + "ms"
	case seconds < 999.5:
		return digits(seconds) + "s"
	}
	return "999s+"
}

func digits(v float64) string {
	switch {
	case v < 9.995:
		return fmt.Sprintf("%.2f", v)
	case v < 99.95:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}

// formatDuration formats a long time with its two largest units.
func formatDuration(seconds float64) string {
	const day = 24 * time.Hour
	d := time.Duration(min(seconds, 1e9) * float64(time.Second)).Round(time.Second)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", d/time.Minute, d%time.Minute/time.Second)
	case d < day:
		return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%dd%02dh", d/day, d%day/time.Hour)
}
