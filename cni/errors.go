package cni

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Errors that callers can distinguish; test for them with errors.Is.
var (
	// ErrNotReady: there is no network to attach to now, but there may be one later.
	ErrNotReady = errors.New("network not ready")
	// ErrNoConfig: no network is configured. Such errors are ErrNotReady, too.
	ErrNoConfig = fmt.Errorf("%w: no network configured", ErrNotReady)
	// ErrInvalid: the request is invalid for any network.
	ErrInvalid = errors.New("invalid attachment")
	// ErrExists: the attachment already exists.
	ErrExists = errors.New("attachment exists")
	// ErrNotFound: there is no such attachment.
	ErrNotFound = errors.New("no such attachment")
	// ErrTryAgain: the network is temporarily busy.
	ErrTryAgain = errors.New("try again later")
)

// The codes of CNI that callers may want to distinguish.
const (
	CodeTryAgain            = 11
	CodeNotAvailable        = 50
	CodeLimitedConnectivity = 51
)

// PluginError is a failure reported by a plugin, or the way it ended without a report.
type PluginError struct {
	// Plugin is the name of the executable, Command the CNI command: ADD, DEL and so on.
	Plugin, Command string
	// Code is the CNI error code; 0 if the plugin gave none.
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

// Is maps codes with a defined meaning to the sentinels of this package.
func (e *PluginError) Is(target error) bool {
	switch e.Code {
	case CodeTryAgain:
		return target == ErrTryAgain
	case CodeNotAvailable, CodeLimitedConnectivity:
		return target == ErrNotReady
	}
	return false
}

// TimeoutError says that a plugin did not end in time and was killed.
type TimeoutError struct {
	Plugin, Command string // as in PluginError
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

// ConfigError says why a configuration of the network cannot be used.
type ConfigError struct {
	// File is the configuration file, Field the part of it that is wrong: a path such as plugins[1].type, empty for the
	// file as a whole.
	File, Field string
	// Reason says what is wrong and, if known, what to do.
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
