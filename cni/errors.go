package cni

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// The errors that callers tell apart. Test with errors.Is.
var (
	// ErrNotReady: there is no network to attach to now; there may be one later.
	ErrNotReady = errors.New("network not ready")
	// ErrNoConfig: no network is configured. Such errors are ErrNotReady, too.
	ErrNoConfig = fmt.Errorf("%w: no network configured", ErrNotReady)
	// ErrInvalid: the request makes no sense, whatever the network.
	ErrInvalid = errors.New("invalid attachment")
	// ErrExists: the attachment is there already.
	ErrExists = errors.New("attachment exists")
	// ErrNotFound: there is no such attachment.
	ErrNotFound = errors.New("no such attachment")
	// ErrTryAgain: the network is busy with something that passes by itself.
	ErrTryAgain = errors.New("try again later")
)

// The codes of CNI that callers may want to tell apart.
const (
	CodeTryAgain            = 11
	CodeNotAvailable        = 50
	CodeLimitedConnectivity = 51
)

// PluginError is a failure that a plugin of the network reported, or the way in which it ended
// without a report.
type PluginError struct {
	// Plugin is the name of the executable, Command what it was to do: ADD, DEL and so on.
	Plugin, Command string
	// Code is that of CNI's specification; 0 means that the plugin gave none.
	Code uint
	// Message and Details are the plugin's own.
	Message, Details string
}

// Error shows all of it.
func (e *PluginError) Error() string {
	text := fmt.Sprintf("network plugin %s failed (%s): %s", e.Plugin, e.Command, e.Message)
	if e.Details != "" {
		text += "; " + e.Details
	}
	if e.Code != 0 {
		text += fmt.Sprintf(" (code %d)", e.Code)
	}
	return text
}

// Is makes the codes with a meaning of their own the sentinels of this package.
func (e *PluginError) Is(target error) bool {
	switch e.Code {
	case CodeTryAgain:
		return target == ErrTryAgain
	case CodeNotAvailable, CodeLimitedConnectivity:
		return target == ErrNotReady
	}
	return false
}

// TimeoutError tells that a plugin had not ended when its time was over, and was killed.
type TimeoutError struct {
	Plugin, Command string
	// After is how long the plugin had run.
	After time.Duration
	// Err is why its time was over: the context's error.
	Err error
}

// Error names the plugin.
func (e *TimeoutError) Error() string {
	return fmt.Sprintf("network plugin %s (%s) was killed after %v: %v", e.Plugin, e.Command, e.After.Round(time.Millisecond), e.Err)
}

// Unwrap returns the context's error.
func (e *TimeoutError) Unwrap() error { return e.Err }

// ConfigError tells that a configuration of the network cannot be used, and why.
type ConfigError struct {
	// File is where it stands, Field what of it is wrong: a path such as plugins[1].type, empty
	// when the file as a whole is.
	File, Field string
	// Reason says what is wrong and, where that is known, what to do.
	Reason string
}

// Error names the file and the field.
func (e *ConfigError) Error() string {
	parts := []string{e.File, e.Field, e.Reason}
	if e.Field == "" {
		parts = []string{e.File, e.Reason}
	}
	return strings.Join(parts, ": ")
}
