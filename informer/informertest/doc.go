// Package informertest holds any informer.Source to its contract: lists that are complete and
// in key order, watches that resume from any version that is known without gap or duplicate,
// expiry that is told, and streams that end when asked to.
package informertest
