// Times that are computed in microseconds, and written in seconds.

package text

import (
	"math"
	"strconv"
)

// Micros is a time in microseconds. In JSON it is in seconds, to the nanosecond.
type Micros float64

// MarshalJSON writes seconds.
func (m Micros) MarshalJSON() ([]byte, error) {
	return strconv.AppendFloat(nil, math.Round(float64(m)*1e3)/1e9, 'f', -1, 64), nil
}

// UnmarshalJSON reads seconds.
func (m *Micros) UnmarshalJSON(b []byte) error {
	seconds, err := strconv.ParseFloat(string(b), 64)
	*m = Micros(math.Round(seconds*1e9) / 1e3)
	return err
}
