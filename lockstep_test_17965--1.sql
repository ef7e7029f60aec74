CREATE FUNCTION tested.go_back() RETURNS void LANGUAGE plpgsql AS
	$$ BEGIN EXECUTE 'SET search_path = tested, ' || (SELECT reset_val FROM pg_settings WHERE name = 'search_path'); END $$;
SELECT tested.go_back();
CREATE TABLE tested.uses (k citext);
INSERT INTO paths VALUES (current_setting('search_path'));
