package csr_test

import (
	"testing"
	"time"

	"github.com/keelson-dev/keelson/controllers"
	"github.com/keelson-dev/keelson/controllers/internal/csr"
)

func TestRetry(t *testing.T) {
	if got, want := csr.Retry(), (controllers.Retry{First: 200 * time.Millisecond, Max: 1000 * time.Second}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
