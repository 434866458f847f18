//go:build !linux

package netns

import "errors"

// Only Linux has network namespaces.

// Create fails with errors.ErrUnsupported.
func Create(string) error { return errors.ErrUnsupported }

// Remove fails with errors.ErrUnsupported.
func Remove(string) error { return errors.ErrUnsupported }

// Check fails with errors.ErrUnsupported.
func Check(string) error { return errors.ErrUnsupported }

// Do fails with errors.ErrUnsupported.
func Do(string, func() error) error { return errors.ErrUnsupported }

// LoopbackUp fails with errors.ErrUnsupported.
func LoopbackUp(string) error { return errors.ErrUnsupported }
