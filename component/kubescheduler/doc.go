// Package kubescheduler provides the scheduler as a component, under upstream's name and identity.
package kubescheduler
