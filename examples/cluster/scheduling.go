package main

import (
	"errors"
	"flag"
	"fmt"

	"github.com/keelson-dev/keelson/component/kubescheduler"
	"github.com/keelson-dev/keelson/scheduler/devices/structured"
	"github.com/keelson-dev/keelson/scheduler/schedulerconfig"
)

// scheduling says how pods are scheduled.
type scheduling struct {
	config, policy string
	file           *schedulerconfig.Config // what the file says
}

func (s *scheduling) define(f *flag.FlagSet) {
	f.StringVar(&s.config, "scheduler-config", "", "")
	f.StringVar(&s.policy, "policy-config-file", "", "")
}

// check reads the file. What it says of a process of its own would mean nothing here.
func (s *scheduling) check() (err error) {
	switch {
	case s.config != "" && s.policy != "":
		return errors.New("--scheduler-config and --policy-config-file exclude each other")
	case s.policy != "":
		if s.file, err = schedulerconfig.OpenPolicy(s.policy, schedulerconfig.Options{}); err != nil {
			return fmt.Errorf("--policy-config-file: %w", err)
		}
	case s.config != "":
		if s.file, err = schedulerconfig.Open(s.config, schedulerconfig.Options{}); err != nil {
			return fmt.Errorf("--scheduler-config: %w", err)
		}
		if e := s.file.Election; e.Explicit && e.Enabled {
			return fmt.Errorf("--scheduler-config: %s: leaderElection.leaderElect: true is not supported: the scheduler is part of this program, and alone", s.config)
		}
		if s.file.Client.Kubeconfig != "" {
			return fmt.Errorf("--scheduler-config: %s: clientConnection.kubeconfig: is not supported: the scheduler is part of this program, and needs no connection", s.config)
		}
	}
	return nil
}

// options returns those of the scheduler.
func (s *scheduling) options() kubescheduler.Options {
	f := s.file
	if f == nil {
		return kubescheduler.Options{Allocator: structured.New()}
	}
	return kubescheduler.Options{
		Profile: f.Profiles[0], More: f.Profiles[1:], InitialBackoff: f.InitialBackoff, MaxBackoff: f.MaxBackoff,
		Writes: f.Writes, BindTimeout: f.BindTimeout, Allocator: structured.New(),
	}
}
